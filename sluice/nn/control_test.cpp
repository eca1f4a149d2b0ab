#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ir/verify.h"
#include "sluice/nn/block.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/helpers.h"
#include "sluice/ops/control_ops.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tensors = std::vector<Tensor>;

HostTensor row(std::initializer_list<double> values) {
  return HostTensor::of<double>(Shape{std::ssize(values)}, values);
}

/// One Fibonacci step.
Tensors fibonacci(Tensors in) {
  return {in[1], in[0] + in[1]};
}

HostTensor afterRuns(std::int64_t count) {
  ops::TensorMap none;
  return evaluated(
      {row({0}), row({1})},
      [&](const Tensors& in) { return forLoop(count, fibonacci, in)[1]; },
      none);
}

TEST(ForLoop, GivesEveryRunTheResultsOfTheOneBefore) {
  EXPECT_EQ(afterRuns(0).at(0), 1);
  EXPECT_EQ(afterRuns(1).at(0), 1);
  EXPECT_EQ(afterRuns(10).at(0), 89);
}

TEST(ForLoop, IsDifferentiated) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F64, Shape{1}});
  const Tensor y = forLoop(3, [&](Tensors in) { return Tensors{in[0] * x}; }, {x})[0];
  const std::vector<ir::Value> wrt = {x.value()};
  graph.addOutput("d", transforms::differentiate(graph, sum(y).value(), wrt)[0]);
  ops::TensorMap state;
  // x⁴ has the gradient 4 x³.
  EXPECT_EQ(ops::evaluate(graph, {{"x", row({2})}}, state).at("d").at(0), 32);
}

TEST(ForLoop, RefusesBodiesThatChangeWhatTheyCarry) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F64, Shape{2}});
  const auto loop = [&](const Body& body) { forLoop(2, body, {x}); };
  EXPECT_THAT(messageOf([&] { loop([](Tensors in) {
                                return Tensors{in[0], in[0]};
                              }); }),
              HasSubstr("1 and 2 tensors"));
  EXPECT_THAT(messageOf([&] { loop([](Tensors in) { return Tensors{sum(in[0])}; }); }),
              HasSubstr("f64[2] and f64[]"));
  EXPECT_THAT(messageOf([&] { forLoop(-1, fibonacci, {x, x}); }), HasSubstr("negative"));
}

/// The number of loop ops in the graph of a model that loops.
std::size_t loopsOf(std::int64_t count, const Body& body, LoopOptions options = {}) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F64, Shape{2}});
  const Tensors out = forLoop(count, body, {x}, options);
  graph.addOutput("y", out[0].value());
  ir::verify(graph);
  return static_cast<std::size_t>(std::ranges::count_if(
      graph.order(), [&](ir::OpId id) { return graph.op(id).is(ops::kLoop); }));
}

TEST(ForLoop, IsOneOpFromACertainCountOn) {
  const auto halved = [](Tensors in) { return Tensors{in[0] * 0.5}; };
  EXPECT_EQ(loopsOf(LoopOptions().rollFrom, halved), 1U);
  EXPECT_EQ(loopsOf(LoopOptions().rollFrom - 1, halved), 0U);
  EXPECT_EQ(loopsOf(2, halved, {.rollFrom = 2}), 1U);
  EXPECT_EQ(loopsOf(100, halved, {.rollFrom = 101}), 0U);
  EXPECT_EQ(loopsOf(1'000'000, halved), 1U);
}

TEST(ForLoop, IsUnrolledIfABodyCannotRunAgainAsItIs) {
  EXPECT_EQ(loopsOf(20, [](Tensors in) { return Tensors{dropout(in[0], 0.5)}; }), 0U);
  EXPECT_EQ(loopsOf(20,
                    [](Tensors in) {
                      const Tensor x = in[0] * 2.0;
                      const Block second("second");
                      return Tensors{x + 1.0};
                    }),
            0U);
  EXPECT_EQ(loopsOf(20, [](Tensors in) { return Tensors{setAvailableMemory(in[0] * 2.0, 0.5)}; }),
            0U);
  EXPECT_THAT(messageOf<Unsupported>([&] {
                loopsOf(kMaxLoopRuns + 1, [](Tensors in) { return Tensors{dropout(in[0], 0.5)}; });
              }),
              HasSubstr("10001 iterations has to be unrolled"));
}

TEST(ForLoop, RunsMoreOftenThanItCouldBeUnrolled) {
  ops::TensorMap none;
  const HostTensor y = evaluated(
      {row({0.5, 0})},
      [](const Tensors& in) {
        const Tensor one = scalar(1, DType::F64);
        return forLoop(
            2 * kMaxLoopRuns, [&](Tensors x) { return Tensors{x[0] + one}; }, in)[0];
      },
      none);
  EXPECT_THAT(y.toDoubles(), ElementsAre(20000.5, 20000));
}

TEST(ForLoop, KeepsTheTensorsOfItsBody) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F64, Shape{2}});
  Tensor inside;
  forLoop(20,
          [&](Tensors in) {
            inside = in[0] * 2.0;
            return Tensors{inside + 1.0};
          },
          {x});
  EXPECT_THAT(messageOf([&] { sum(inside); }), HasSubstr("return it from the body"));
}

/// (total) and x -> total + x, which is also a row.
Scanned runningSum(const Tensors& carried, const Tensors& rows) {
  const Tensor total = carried[0] + rows[0];
  return {{total}, {total}};
}

TEST(Scan, GivesEveryIterationARow) {
  for (const std::int64_t rollFrom : {1, 10}) {
    for (const bool reverse : {false, true}) {
      Scanned out;
      ops::TensorMap none;
      const auto result = [&](bool rows) {
        return evaluated(
                   {row({1, 2, 4, 8}), row({100}).reshaped({})},
                   [&](const Tensors& in) {
                     out = scan(runningSum, {in[1]}, {in[0]}, {rollFrom, reverse});
                     return rows ? out.rows[0] : out.carried[0];
                   },
                   none)
            .toDoubles();
      };
      EXPECT_THAT(result(false), ElementsAre(115));
      if (reverse) {
        EXPECT_THAT(result(true), ElementsAre(115, 114, 112, 108));
      } else {
        EXPECT_THAT(result(true), ElementsAre(101, 103, 107, 115));
      }
    }
  }
}

TEST(Scan, RefusesSequencesThatDoNotFit) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F64, Shape{3}});
  const Tensor y = tracer.input("y", {DType::F64, Shape{4}});
  const Tensor zero = scalar(0, DType::F64);
  EXPECT_THAT(messageOf([&] { scan(runningSum, {zero}, {}); }), HasSubstr("needs a sequence"));
  EXPECT_THAT(messageOf([&] { scan(runningSum, {zero}, {x, y}); }), HasSubstr("f64[4]"));
  EXPECT_THAT(messageOf([&] { scan(runningSum, {zero}, {zero}); }), HasSubstr("at least one"));
  const auto wider = [&](const Tensors&, const Tensors&) { return Scanned{{x}}; };
  EXPECT_THAT(messageOf([&] { scan(wider, {zero}, {x}); }), HasSubstr("f64[] and f64[3]"));
}

Tensors doubled(Tensors in) {
  return {in[0] * 2.0};
}
Tensors logarithm(Tensors in) {
  return {log(in[0])};
}

TEST(Cond, GivesTheResultsOfTheBranchThatIsChosen) {
  ops::TensorMap none;
  const auto chosen = [&](double limit) {
    return evaluated(
        {row({-1, 2}), row({limit})},
        [](const Tensors& in) {
          const Tensor low = less(in[1], scalar(0, DType::F64));
          return cond(low, doubled, {in[0]}, logarithm, {in[0] + 2.0})[0];
        },
        none);
  };
  EXPECT_THAT(chosen(-1).toDoubles(), ElementsAre(-2, 4));
  EXPECT_THAT(chosen(1).toDoubles(), ElementsAre(0, std::log(4.0)));
}

TEST(Cond, IsNotHurtByWhatTheOtherBranchComputes) {
  ops::TensorMap none;
  const HostTensor y = evaluated(
      {row({-1})},
      [](const Tensors& in) {
        const Tensor negative = less(in[0], scalar(0, DType::F64));
        return cond(negative, doubled, {in[0]}, logarithm, {in[0]})[0];
      },
      none);
  EXPECT_EQ(y.at(0), -2) << "the logarithm is NaN";
}

TEST(Cond, RefusesWhatItCannotChoose) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F64, Shape{2}});
  const Tensor yes = less(sum(x), scalar(0, DType::F64));
  const auto both = [](Tensors in) { return Tensors{in[0], in[0]}; };
  const auto first = [](Tensors in) { return Tensors{slice(in[0], 0, 0, 1)}; };
  EXPECT_THAT(messageOf([&] { cond(yes, both, {x}, doubled, {x}); }), HasSubstr("2 and 1 tensors"));
  EXPECT_THAT(messageOf([&] { cond(yes, first, {x}, doubled, {x}); }),
              HasSubstr("f64[1] and f64[2]"));
  EXPECT_THAT(messageOf([&] { cond(x, doubled, {x}, doubled, {x}); }), HasSubstr("one bool"));
  const CPU host([](std::span<const HostTensor> in) { return std::vector{in[0]}; }, "host");
  const auto effect = [&](Tensors in) { return host(in, {in[0].type()}); };
  EXPECT_THAT(messageOf([&] { cond(yes, effect, {x}, doubled, {x}); }), HasSubstr("effect"));
}

TEST(Cond, HasTheGradientOfTheBranchThatIsChosen) {
  for (const double limit : {-1.0, 1.0}) {
    ir::Graph graph;
    Tracer tracer(graph, TraceMode::Training);
    const Tensor x = tracer.input("x", {DType::F64, Shape{2}});
    const Tensor yes = less(tracer.input("limit", {DType::F64, Shape{1}}), scalar(0, DType::F64));
    const Tensor y = cond(yes, doubled, {x}, logarithm, {x})[0];
    const std::vector<ir::Value> wrt = {x.value()};
    graph.addOutput("d", transforms::differentiate(graph, sum(y).value(), wrt)[0]);
    ops::TensorMap state;
    const HostTensor d =
        ops::evaluate(graph, {{"x", row({-2, 4})}, {"limit", row({limit})}}, state).at("d");
    if (limit < 0) {
      EXPECT_THAT(d.toDoubles(), ElementsAre(2, 2)) << "the other gradient would be NaN";
    } else {
      EXPECT_THAT(d.toDoubles(), ElementsAre(-0.5, 0.25));
    }
  }
}

TEST(Cond, IsOneBranchUnlessOpsCannotStandInABody) {
  const auto traced = [](TraceMode mode, const Body& body) {
    ir::Graph graph;
    Tracer tracer(graph, mode);
    const Tensor x = tracer.input("x", {DType::F64, Shape{2}});
    const Tensor yes = less(sum(x), scalar(0, DType::F64));
    graph.addOutput("y", cond(yes, body, {x}, doubled, {x})[0].value());
    ir::verify(graph);
    return std::ranges::any_of(graph.order(),
                               [&](ir::OpId id) { return graph.op(id).is(ops::kBranch); });
  };
  EXPECT_TRUE(traced(TraceMode::Training, logarithm));
  const auto blocks = [](Tensors in) {
    const Tensor x = in[0] * 2.0;
    const Block second("second");
    return Tensors{x + 1.0};
  };
  EXPECT_FALSE(traced(TraceMode::Inference, blocks));
  EXPECT_THAT(messageOf([&] { traced(TraceMode::Training, blocks); }), HasSubstr("blocks"));
  const auto random = [](Tensors in) { return Tensors{dropout(in[0], 0.5)}; };
  EXPECT_TRUE(traced(TraceMode::Inference, random)) << "nothing is dropped there";
  EXPECT_THAT(messageOf([&] { traced(TraceMode::Training, random); }), HasSubstr("random"));
}

TEST(Cpu, RunsAFunctionOfTheHostOnTheValues) {
  const CPU host(
      [](std::span<const HostTensor> in) {
        HostTensor total(DType::F64, Shape{});
        total.set(0, in[0].at(0) + in[1].at(1));
        return std::vector{in[1].clone(), total};
      },
      "pick");
  ops::TensorMap none;
  const HostTensor y = evaluated(
      {row({3, 4}), row({5, 6})},
      [&](const Tensors& in) {
        const Tensors out = host({in[0], in[1]}, {in[1].type(), {DType::F64, Shape{}}});
        return out[0] * out[1];
      },
      none);
  EXPECT_THAT(y.toDoubles(), ElementsAre(45, 54));
}

TEST(Cpu, RefusesResultsOfOtherTypes) {
  ops::TensorMap none;
  const CPU host([](std::span<const HostTensor> in) { return std::vector{in[0]}; }, "same");
  const auto resultOf = [&](std::vector<TensorType> types) {
    return messageOf([&] {
      evaluated(
          {row({3, 4})}, [&](const Tensors& in) { return host(in, types)[0]; }, none);
    });
  };
  EXPECT_THAT(resultOf({{DType::F32, Shape{2}}}), HasSubstr("'same' must give f32[2]"));
  EXPECT_THAT(resultOf({{DType::F64, Shape{2}}, {DType::F64, Shape{2}}}), HasSubstr("2 results"));
}

TEST(Cpu, MustOutliveItsCalls) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F64, Shape{1}});
  {
    const CPU host([](std::span<const HostTensor> in) { return std::vector{in[0]}; }, "short");
    graph.addOutput("y", host({x}, {x.type()})[0].value());
  }
  ops::TensorMap state;
  EXPECT_THAT(messageOf([&] {
                ops::evaluate(graph, {{"x", row({1})}}, state);
              }),
              HasSubstr("'short' is gone"));
}

TEST(Cpu, NeedsAFunctionAnIdAndAnInferenceModel) {
  const auto same = [](std::span<const HostTensor> in) { return std::vector{in[0]}; };
  EXPECT_THAT(messageOf([&] { CPU(same, ""); }), HasSubstr("id"));
  EXPECT_THAT(messageOf([&] { CPU(nullptr, "id"); }), HasSubstr("something to call"));
  const CPU host(same, "id");
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F64, Shape{1}});
  EXPECT_THAT(messageOf([&] { host({x}, {x.type()}); }), HasSubstr("inference"));
}

}  // namespace
}  // namespace sluice::nn
