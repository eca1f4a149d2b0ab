// Control flow of ONNX models: values worked out by hand, gradients against finite differences, the
// same bits from a loop op and from its unrolled form, and what cannot be either is refused by
// name.
#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/logic_ops.h"
#include "tests/onnx/text_model.h"
#include "tests/support/message_of.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

HostTensor flag(bool value) {
  return HostTensor::scalar(value);
}

std::size_t count(const onnx::ImportedModel& model, const ir::OpDef& def) {
  return static_cast<std::size_t>(std::ranges::count_if(
      model.graph.order(), [&](ir::OpId id) { return model.graph.op(id).is(def); }));
}

const std::string kIf = R"(g (bool c, double[2] x) => (double[2] y) {
  y = If (c) <then_branch = a () => (double[2] t) { t = Neg(x) },
              else_branch = b () => (double[2] e) { e = Add(x, x) }>
})";

TEST(If, AKnownConditionLeavesOneBranch) {
  for (const bool value : {true, false}) {
    const auto model = importText(kIf, {.constants = {{"c", flag(value)}}});
    EXPECT_EQ(count(model, ops::kNeg), value ? 1U : 0U);
    EXPECT_EQ(count(model, ops::kAdd), value ? 0U : 1U);
    EXPECT_EQ(count(model, ops::kWhere), 0U);
  }
}

TEST(If, AComputedConditionTakesOneOfTwoResults) {
  const auto model = importText(kIf);
  EXPECT_EQ(count(model, ops::kBranch), 1U);
  EXPECT_EQ(count(model, ops::kNeg), 0U) << "it is in a body, which runs only if it is chosen";
  EXPECT_THAT(resultOf(model, {{"c", flag(true)}, {"x", doubles({1, -2})}}), ElementsAre(-1, 2));
  EXPECT_THAT(resultOf(model, {{"c", flag(false)}, {"x", doubles({1, -2})}}), ElementsAre(2, -4));
  expectGradients(model, {{"c", flag(true)}, {"x", doubles({1, -2})}}, "y");
  expectGradients(model, {{"c", flag(false)}, {"x", doubles({1, -2})}}, "y");
}

TEST(If, ResultsOfOtherShapesNeedAKnownCondition) {
  const std::string text = R"(g (bool c, double[2] x) => (double[N] y) {
    y = If (c) <then_branch = a () => (double[2] t) { t = Neg(x) },
                else_branch = b () => (double[4] e) { e = Concat <axis = 0> (x, x) }>
  })";
  try {
    importText(text);
    FAIL() << "nothing thrown";
  } catch (const onnx::NeedsConstant& error) {
    EXPECT_THAT(error.what(), HasSubstr("shape depends on computed values"));
    EXPECT_THAT(error.inputs(), ElementsAre("c"));
  }
  const auto model = importText(text, {.constants = {{"c", flag(false)}}});
  EXPECT_THAT(resultOf(model, {{"x", doubles({3, 4})}}), ElementsAre(3, 4, 3, 4));
}

TEST(If, RefusesBranchesThatDoNotFit) {
  const auto import = [](const std::string& condition, const std::string& results) {
    importText("g (bool[2] cc, bool c, double[2] x) => (double[2] y) { y = If (" + condition +
               ") <then_branch = a () => (double[2] t) { t = Neg(x) }, else_branch = b () => "
               "(double[2] e" +
               results + ") { e = Add(x, x) }> }");
  };
  EXPECT_THAT(messageOf([&] { import("c", ", double[2] x"); }), HasSubstr("1 and 2 results"));
  EXPECT_THAT(messageOf([&] { import("cc", ""); }), HasSubstr("one bool"));
}

TEST(Loop, RunsAsOftenAsItsTripCount) {
  // y = x (1 + 0)(1 + 1)(1 + 2), with the factor of every run as a row.
  const auto model = importText(R"(g (double[2] x) => (double[2] y, double[3] f) {
    m = Constant <value = int64 {3}> ()
    y, f = Loop (m, _, x) <body = b (int64 i, bool c, double[2] v)
        => (bool d, double[2] w, double k) {
      one = Constant <value = double {1}> ()
      j = Cast <to = 11> (i)
      k = Add(one, j)
      w = Mul(v, k)
      d = Identity(c)
    }>
  })");
  const auto results = evaluateModel(model, {{"x", doubles({1, -2})}});
  EXPECT_THAT(results.at("y").toDoubles(), ElementsAre(6, -12));
  EXPECT_THAT(results.at("f").toDoubles(), ElementsAre(1, 2, 3));
  EXPECT_EQ(results.at("f").shape(), (Shape{3}));
  expectGradients(model, {{"x", doubles({1, -2})}}, "y");
}

TEST(Loop, AKnownConditionEndsIt) {
  // Runs while i < 4, below a trip count of 100.
  const auto model = importText(R"(g (double[1] x) => (double[1] y) {
    m = Constant <value = int64 {100}> ()
    t = Constant <value = bool {1}> ()
    y = Loop (m, t, x) <body = b (int64 i, bool c, double[1] v) => (bool d, double[1] w) {
      w = Add(v, v)
      last = Constant <value = int64 {3}> ()
      d = Less(i, last)
    }>
  })");
  EXPECT_EQ(count(model, ops::kAdd), 4U);
  EXPECT_EQ(count(model, ops::kWhere), 0U);
  EXPECT_THAT(resultOf(model, {{"x", doubles({3})}}), ElementsAre(48));
}

const std::string kWhile = R"(g (double x, double top) => (double y, int64 n) {
  m = Constant <value = int64 {6}> ()
  zero = Constant <value = int64 {0}> ()
  go = Less(x, top)
  y, n = Loop (m, go, x, zero) <body = b (int64 i, bool c, double v, int64 k)
      => (bool d, double w, int64 l) {
    one = Constant <value = int64 {1}> ()
    w = Mul(v, v)
    l = Add(k, one)
    d = Less(w, top)
  }>
})";

TEST(Loop, AComputedConditionKeepsTheValuesOfTheLastRun) {
  const auto model = importText(kWhile);
  const auto run = [&](double x, double top) {
    const auto results =
        evaluateModel(model, {{"x", HostTensor::scalar(x)}, {"top", HostTensor::scalar(top)}});
    return std::pair(results.at("y").at(0), results.at("n").at(0));
  };
  EXPECT_EQ(run(2, 100), std::pair(256.0, 3.0));  // 4, 16, 256
  EXPECT_EQ(run(2, 2), std::pair(2.0, 0.0));
  EXPECT_EQ(run(1, 100), std::pair(1.0, 6.0));  // ended by the trip count
  expectGradients(model, {{"x", HostTensor::scalar(1.5)}, {"top", HostTensor::scalar(10.0)}}, "y");
}

TEST(Loop, RowsNeedAKnownNumberOfRuns) {
  const auto import = [](const std::string& limit, const onnx::ImportOptions& options = {}) {
    return importText("g (bool go, double x) => (double y, double[N] r) { " + limit +
                          R"( y, r = Loop (m, go, x) <body = b (int64 i, bool c, double v)
                              => (bool d, double w, double q) {
                            w = Add(v, v)
                            q = Neg(v)
                            d = Identity(c)
                          }> })",
                      options);
  };
  const std::string three = "m = Constant <value = int64 {3}> ()";
  EXPECT_THAT(messageOf<Unsupported>([&] { import(three); }),
              HasSubstr("shape depends on computed values"));
  const auto model = import(three, {.constants = {{"go", flag(true)}}});
  const auto results = evaluateModel(model, {{"x", HostTensor::scalar(1.0)}});
  EXPECT_THAT(results.at("r").toDoubles(), ElementsAre(-1, -2, -4));
  // No run: a result without rows.
  const auto none = evaluateModel(import(three, {.constants = {{"go", flag(false)}}}),
                                  {{"x", HostTensor::scalar(1.0)}});
  EXPECT_EQ(none.at("r").shape(), (Shape{0}));
  EXPECT_EQ(none.at("y").at(0), 1.0);
}

/// Options under which every loop is unrolled.
const onnx::ImportOptions kUnrolled{.rollFrom = std::numeric_limits<std::int64_t>::max()};

std::size_t countOps(const onnx::ImportedModel& model, std::string_view op) {
  return static_cast<std::size_t>(std::ranges::count_if(
      model.graph.order(), [&](ir::OpId id) { return model.graph.op(id).def->name == op; }));
}

TEST(Loop, OfManyRunsIsOneOpWithTheBitsOfItsUnrolledForm) {
  // The number of the run, two carried values that start as constants, a value from outside, rows.
  const std::string text = R"(g (double[3] x) => (double[3] y, double s, double[N, 3] r) {
    m = Constant <value = int64 {20}> ()
    one = Constant <value = double {1}> ()
    y, s, r = Loop (m, _, x, one) <body = b (int64 i, bool c, double[3] v, double t)
        => (bool c, double[3] w, double u, double[3] q) {
      n = CastLike(i, t)
      a = Add(v, n)
      w = Sin(a)
      u = Add(t, n)
      q = Mul(w, x)
    }>
  })";
  const auto rolled = importText(text);
  const auto unrolled = importText(text, kUnrolled);
  EXPECT_EQ(countOps(rolled, "loop"), 1U);
  EXPECT_EQ(countOps(unrolled, "loop"), 0U);
  const ops::TensorMap inputs = {{"x", HostTensor::of<double>({3}, {0.5, -1, 2})}};
  const auto expected = evaluateModel(unrolled, inputs);
  const auto found = evaluateModel(rolled, inputs);
  for (const char* name : {"y", "s", "r"}) {
    EXPECT_TRUE(found.at(name).sameBits(expected.at(name))) << name;
  }
  EXPECT_EQ(found.at("s").at(0), 191);  // 1 + 0 + 1 + ... + 19
  expectGradients(rolled, inputs, "y");
}

TEST(Loop, ThatMustKnowItsRunIsUnrolled) {
  const auto model = importText(R"(g (double[20] x) => (double y) {
    m = Constant <value = int64 {20}> ()
    zero = Constant <value = double {0}> ()
    y = Loop (m, _, zero) <body = b (int64 i, bool c, double v) => (bool c, double w) {
      axes = Constant <value_ints: ints = [0]> ()
      ones = Constant <value_ints: ints = [1]> ()
      e = Unsqueeze(i, axes)
      more = Add(e, ones)
      part = Slice(x, e, more)
      p = ReduceSum<keepdims = 0>(part)
      w = Add(v, p)
    }>
  })");
  EXPECT_EQ(countOps(model, "loop"), 0U);
}

TEST(Loop, RefusesToUnrollTooMuch) {
  const auto import = [](const std::string& count,
                         const std::string& condition,
                         const onnx::ImportOptions& options = {}) {
    importText("g (bool go, double x) => (double y) { m = Constant <value = int64 {" + count +
                   "}> () y = Loop (m, " + condition +
                   R"(, x) <body = b (int64 i, bool c, double v) => (bool d, double w) {
                     w = Identity(v)
                     d = Identity(c)
                   }> })",
               options);
  };
  EXPECT_THAT(messageOf<Unsupported>([&] { import("10001", "_", kUnrolled); }),
              HasSubstr("at most 10000"));
  import("10001", "_");
  EXPECT_THAT(messageOf<Unsupported>([&] { import("1000001", "_"); }),
              HasSubstr("at most 1000000"));
  EXPECT_THAT(messageOf<Unsupported>([&] { import("9223372036854775807", "go"); }),
              HasSubstr("no known trip count"));
}

TEST(Loop, RefusesManyBodiesInAllAfterTheFirst) {
  EXPECT_THAT(messageOf<Unsupported>([] {
                importText(R"(g (double x) => (double y) {
                  m = Constant <value = int64 {9000}> ()
                  y = Loop (m, _, x) <body = b (int64 i, bool c, double v) => (bool c, double w) {
                    w = Loop (m, _, v) <body = bb (int64 ii, bool cc, double vv)
                      => (bool cc, double vv) { }>
                  }>
                })",
                           kUnrolled);
              }),
              AllOf(HasSubstr("would run 9000 times"), HasSubstr("ImportOptions::limits.ops")));
}

TEST(Loop, RefusesABodyThatDoesNotFit) {
  const auto import = [](const std::string& signature) {
    importText(
        "g (double x) => (double y) { m = Constant <value = int64 {2}> () y = Loop (m, _, "
        "x) <body = b (int64 i, bool c" +
        signature + " { w = Neg(x) d = Identity(c) }> }");
  };
  EXPECT_THAT(messageOf([&] { import(") => (bool d, double w)"); }), HasSubstr("2 inputs"));
  EXPECT_THAT(messageOf([&] { import(", double v) => (bool d)"); }), HasSubstr("1 values"));
  EXPECT_THAT(messageOf([&] { import(", double v) => (double w, bool d)"); }),
              HasSubstr("one bool"));
}

TEST(Loop, AWeightOfItsBodyIsOneVariable) {
  const auto model = importText(R"(g (float[1] x) => (float[1] y) {
    m = Constant <value = int64 {3}> ()
    y = Loop (m, _, x) <body = b (int64 i, bool c, float[1] v) => (bool c, float[1] w)
        <float[1] k = {2}> { w = Mul(v, k) }>
  })");
  EXPECT_EQ(model.graph.variables().size(), 1U);
  EXPECT_THAT(resultOf(model, {{"x", HostTensor::of<float>(Shape{1}, {1.5F})}}), ElementsAre(12));
}

TEST(Bodies, WeightsOfOneNameStayApart) {
  const auto model = importText(R"(g (bool c, float[1] x) => (float[1] y) {
    y = If (c) <then_branch = a () => (float[1] t) <float[1] k = {2}> { t = Mul(x, k) },
                else_branch = b () => (float[1] e) <float[1] k = {5}> { e = Mul(x, k) }>
  })");
  EXPECT_EQ(model.graph.variables().size(), 2U);
  const HostTensor x = HostTensor::of<float>(Shape{1}, {1.0F});
  EXPECT_THAT(resultOf(model, {{"c", flag(true)}, {"x", x}}), ElementsAre(2));
  EXPECT_THAT(resultOf(model, {{"c", flag(false)}, {"x", x}}), ElementsAre(5));
}

TEST(Bodies, SeeTheValuesOfAllGraphsRoundThem) {
  // y = x + (0 + 0) + (0 + 1) + (1 + 0) + (1 + 1), all through names of outer graphs.
  const auto model = importText(R"(g (double x) => (double y) {
    two = Constant <value = int64 {2}> ()
    y = Loop (two, _, x) <body = outer (int64 i, bool c, double v) => (bool c, double w) {
      w = Loop (two, _, v) <body = inner (int64 j, bool cc, double vv) => (bool cc, double ww) {
        k = Add(i, j)
        kk = Cast <to = 11> (k)
        ww = Add(vv, kk)
      }>
    }>
  })");
  EXPECT_THAT(resultOf(model, {{"x", HostTensor::scalar(10.0)}}), ElementsAre(14));
}

TEST(Bodies, RefuseAFunctionThatCallsItself) {
  EXPECT_THAT(messageOf<Unsupported>([] {
                importText(R"(g (double x) => (double y) { y = local.f(x) }
                <domain: "local", opset_import: ["" : 17, "local" : 1]>
                f (x) => (y) { y = local.f(x) })");
              }),
              HasSubstr("nested more than 32 deep"));
}

/// h' = tanh(w h + x_t): the state and its rows.
const std::string kRecurrent = R"(g (double[2] h, double[2] w, double[3, 2] x)
    => (double[2] y, double[3, 2] r) {
  y, r = Scan <num_scan_inputs = 1, body = b (double[2] s, double[2] v)
      => (double[2] t, double[2] row) {
    p = Mul(s, w)
    q = Add(p, v)
    t = Tanh(q)
    row = Identity(t)
  }> (h, x)
})";

/// The ways to import a loop: rolled whenever it can be, and as it is by default.
class BothForms : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Loops, BothForms, ::testing::Values(1, onnx::ImportOptions().rollFrom));

TEST_P(BothForms, OfAScanAreARecurrence) {
  const auto model = importText(kRecurrent, {.rollFrom = GetParam()});
  EXPECT_EQ(countOps(model, "loop"), GetParam() == 1 ? 1U : 0U);
  const ops::TensorMap inputs = {
      {"h", doubles({0.5, -0.25})},
      {"w", doubles({0.75, 1.5})},
      {"x", HostTensor::of<double>(Shape{3, 2}, {0.1, 0.2, -0.3, 0.4, 0.5, -0.6})}};
  const auto results = evaluateModel(model, inputs);
  std::vector<double> expected;
  std::array state = {0.5, -0.25};
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t i = 0; i < 2; ++i) {
      const double w = inputs.at("w").at(static_cast<std::int64_t>(i));
      state[i] = std::tanh(w * state[i] + inputs.at("x").at(static_cast<std::int64_t>(2 * t + i)));
      expected.push_back(state[i]);
    }
  }
  EXPECT_THAT(results.at("r").toDoubles(), Pointwise(DoubleNear(1e-12), expected));
  EXPECT_THAT(results.at("y").toDoubles(), Pointwise(DoubleNear(1e-12), state));
  expectGradients(model, inputs, "y");
  expectGradients(model, inputs, "r");
}

TEST_P(BothForms, OfAScanGoAlongAnyAxisInBothDirections) {
  // Running sums of the columns from the last to the first; rows are put in front as columns.
  const auto model =
      importText(R"(g (double[2] s, double[2, 3] x) => (double[2] y, double[2, 3] r) {
    y, r = Scan <num_scan_inputs = 1, scan_input_axes = [-1], scan_input_directions = [1],
                 scan_output_axes = [1], scan_output_directions = [1],
                 body = b (double[2] a, double[2] v) => (double[2] t, double[2] row) {
      t = Add(a, v)
      row = Identity(t)
    }> (s, x)
  })",
                 {.rollFrom = GetParam()});
  const auto results =
      evaluateModel(model,
                    {{"s", doubles({0, 100})},
                     {"x", HostTensor::of<double>(Shape{2, 3}, {1, 2, 3, 10, 20, 30})}});
  EXPECT_THAT(results.at("y").toDoubles(), ElementsAre(6, 160));
  EXPECT_EQ(results.at("r").shape(), (Shape{2, 3}));
  EXPECT_THAT(results.at("r").toDoubles(), ElementsAre(6, 5, 3, 160, 150, 130));
}

const std::string kBatched = R"( => (double[2, 1] y, double[2, 3, 1] r) {
  y, r = Scan <num_scan_inputs = 1, directions = [1], body = b (double[1] a, double[1] v)
      => (double[1] t, double[1] row) {
    t = Add(a, v)
    row = Identity(t)
  }> (n, s, x)
})";

TEST(Scan, OfVersion8HasABatchAndLengths) {
  const auto model =
      importText("g (int64[2] n, double[2, 1] s, double[2, 3, 1] x)" + kBatched,
                 {.constants = {{"n", HostTensor::of<std::int64_t>(Shape{2}, {3, 2})}}},
                 8);
  const auto results =
      evaluateModel(model,
                    {{"s", HostTensor::of<double>(Shape{2, 1}, {0, 100})},
                     {"x", HostTensor::of<double>(Shape{2, 3, 1}, {1, 2, 3, 10, 20, 30})}});
  EXPECT_THAT(results.at("y").toDoubles(), ElementsAre(6, 130));
  EXPECT_THAT(results.at("r").toDoubles(), ElementsAre(3, 5, 6, 120, 130, 0));
}

TEST(Scan, OfNoSlicesKeepsItsState) {
  const auto model =
      importText(R"(g (double[2] s, double[0, 2] x) => (double[2] y, double[0, 2] r) {
    y, r = Scan <num_scan_inputs = 1, body = b (double[2] a, double[2] v)
        => (double[2] t, double[2] row) {
      t = Add(a, v)
      row = Identity(t)
    }> (s, x)
  })");
  const auto results =
      evaluateModel(model, {{"s", doubles({1, 2})}, {"x", HostTensor(DType::F64, Shape{0, 2})}});
  EXPECT_THAT(results.at("y").toDoubles(), ElementsAre(1, 2));
  EXPECT_EQ(results.at("r").shape(), (Shape{0, 2}));
}

TEST(Scan, RefusesOperandsThatDoNotFit) {
  const auto import = [](const std::string& types, const std::string& count) {
    importText("g (double[2] s, " + types +
               ") => (double[2] y) { y = Scan <num_scan_inputs = " + count +
               ", body = b (double[2] a, double[2] v, double[2] w) => (double[2] t) { t = "
               "Add(a, v) }> (s, x, z) }");
  };
  EXPECT_THAT(messageOf([&] { import("double[3, 2] x, double[4, 2] z", "2"); }),
              HasSubstr("3 and 4 slices"));
  EXPECT_THAT(messageOf([&] { import("double[3, 2] x, double[3, 2] z", "4"); }),
              HasSubstr("num_scan_inputs is 4"));
  EXPECT_THAT(
      messageOf<Unsupported>([&] { import("double[2000000, 2] x, double[2000000, 2] z", "2"); }),
      HasSubstr("2000000 times"));
  const auto lengths = [](const std::string& batch, std::int64_t length) {
    importText("g (int64[2] n, double[" + batch + ", 1] s, double[2, 3, 1] x)" + kBatched,
               {.constants = {{"n", HostTensor::of<std::int64_t>(Shape{2}, {3, length})}}},
               8);
  };
  EXPECT_THAT(messageOf([&] { lengths("2", 4); }), HasSubstr("sequence_lens"));
  EXPECT_THAT(messageOf([&] { lengths("1", 2); }), HasSubstr("one batch"));
}

TEST(Scan, RefusesABodyThatDoesNotFit) {
  EXPECT_THAT(messageOf([] {
                importText(R"(g (double[1] s, double[2, 1] x) => (double[1] y) {
                  y = Scan <num_scan_inputs = 1, body = b (double[1] a, double[1] v) => () { }> (s, x)
                })");
              }),
              HasSubstr("1 states, got 0"));
  // Rows that grow.
  EXPECT_THAT(messageOf([] {
                importText(R"(g (double[1] s, double[2, 1] x) => (double[3] y, double[N] r) {
                  y, r = Scan <num_scan_inputs = 1, body = b (double[1] a, double[1] v)
                      => (double[2] t, double[2] row) {
                    t = Concat <axis = 0> (a, v)
                    row = Identity(t)
                  }> (s, x)
                })");
              }),
              HasSubstr("rows of f64[2] and of f64[3]"));
}

}  // namespace
}  // namespace sluice::testing
