// The vendor's ops by hand-computed values, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"
#include "sluice/ops/vendor.h"
#include "tests/support/message_of.h"

namespace sluice::ops {
namespace {

using sluice::testing::messageOf;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

HostTensor i64(std::initializer_list<std::int64_t> values) {
  return HostTensor::of<std::int64_t>({std::ssize(values)}, values);
}

HostTensor f64(Shape shape, std::initializer_list<double> values) {
  return HostTensor::of<double>(std::move(shape), values);
}

std::string refusal(const ir::OpDef& def,
                    const std::vector<HostTensor>& operands,
                    const ir::Attrs& attrs = {}) {
  return messageOf([&] { evaluate(def, attrs, operands); });
}

TEST(Abort, StopsIfAnElementIsNotZero) {
  EXPECT_TRUE(evaluate(kAbort, {}, {i64({0, 0})}).empty());
  EXPECT_THAT(messageOf<DeviceError>([] {
                evaluate(kAbort, {}, {i64({0, 3})});
              }),
              HasSubstr("element 1 of the condition i64[2] is 3"));
  EXPECT_THAT(messageOf<DeviceError>([] { evaluate(kAbort, {}, {HostTensor::scalar(true)}); }),
              HasSubstr("abort"));
  EXPECT_THAT(messageOf<DeviceError>([] { evaluate(kAbort, {}, {}); }), HasSubstr("stops here"));
}

TEST(PrintTensor, LogsUnderItsTitleAndGivesTheValue) {
  ::testing::internal::CaptureStderr();
  const HostTensor y = evaluate(kPrintTensor, {{"title", "here"}}, {i64({1, 20})})[0];
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(y.toDoubles(), ElementsAre(1, 20));
  EXPECT_THAT(printed, HasSubstr("here:\n( 1, 20)"));
}

TEST(PrintTensor, PassesItsOptionsOn) {
  ::testing::internal::CaptureStderr();
  evaluate(kPrintTensor,
           {{"summariseThreshold", 4},
            {"edgeItems", 1},
            {"separator", ";"},
            {"openBracket", "<"},
            {"closeBracket", ">"}},
           {i64({1, 2, 3, 4, 5})});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("<1;...;5>"));
  ::testing::internal::CaptureStderr();
  evaluate(kPrintTensor, {{"digits", 2}, {"floatFormat", 2}}, {f64({1}, {0.25})});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("(2.5e-01)"));
  ::testing::internal::CaptureStderr();
  evaluate(kPrintTensor, {{"maxLineWidth", 3}}, {i64({1, 2})});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("(1,\n 2)"));
}

TEST(PrintTensor, RefusesOptionsThatMeanNothing) {
  EXPECT_THAT(refusal(kPrintTensor, {i64({1})}, {{"digits", -1}}), HasSubstr("digits"));
  EXPECT_THAT(refusal(kPrintTensor, {i64({1})}, {{"edgeItems", -1}}), HasSubstr("edgeItems"));
  EXPECT_THAT(refusal(kPrintTensor, {i64({1})}, {{"floatFormat", 4}}), HasSubstr("floatFormat"));
}

TEST(ShapedDropout, DropsWhatSharesAPlaceOfTheMask) {
  const HostTensor x = HostTensor::full({DType::F32, Shape{50, 4}}, 1.0);
  const HostTensor y =
      evaluate(kShapedDropout, {{"shape", {50, 1}}, {"ratio", 0.5}, {"ordinal", 0}}, {x})[0];
  int dropped = 0;
  for (std::int64_t row = 0; row < 50; ++row) {
    const double first = y.at(4 * row);
    EXPECT_TRUE(first == 0.0 || first == 2.0);
    dropped += first == 0.0 ? 1 : 0;
    for (std::int64_t column = 1; column < 4; ++column) {
      EXPECT_EQ(y.at(4 * row + column), first);
    }
  }
  EXPECT_GT(dropped, 10);
  EXPECT_LT(dropped, 40);
}

TEST(ShapedDropout, RefusesWhatDoesNotFit) {
  const HostTensor x(DType::F32, Shape{2, 3});
  const auto with = [&](const std::vector<std::int64_t>& shape, double ratio) {
    return refusal(kShapedDropout, {x}, {{"shape", shape}, {"ratio", ratio}, {"ordinal", 0}});
  };
  EXPECT_THAT(with({2, 2}, 0.5), HasSubstr("cannot be broadcast"));
  EXPECT_THAT(with({1, 2, 3}, 0.5), HasSubstr("cannot be broadcast"));
  EXPECT_THAT(with({2, 3}, 1.0), HasSubstr("ratio"));
}

TEST(SplineBasis, IsByHandOnOneAxis) {
  // Open, extent 3, degree 1: v = 2 u. At u = 0.3 that is node 0 and a rest of 0.6.
  const auto open = evaluate(kSplineBasis, {}, {f64({2, 1}, {0.3, 0.75}), i64({3}), i64({1})});
  EXPECT_THAT(open[0].toDoubles(), Pointwise(DoubleNear(1e-12), {0.4, 0.6, 0.5, 0.5}));
  EXPECT_THAT(open[1].toDoubles(), ElementsAre(0, 1, 1, 2));
  // Closed: v = 3 u, and the node behind the last is the first again.
  const auto closed = evaluate(kSplineBasis, {}, {f64({1, 1}, {0.75}), i64({3}), i64({0})});
  EXPECT_THAT(closed[0].toDoubles(), Pointwise(DoubleNear(1e-12), {0.75, 0.25}));
  EXPECT_THAT(closed[1].toDoubles(), ElementsAre(2, 0));
}

TEST(SplineBasis, HasTheProductsOfItsAxes) {
  // v = (0.6, 0.8): the first axis varies fastest, its stride is 1 and that of the second is 3.
  const auto two = evaluate(kSplineBasis, {}, {f64({1, 2}, {0.3, 0.2}), i64({3, 5}), i64({1, 1})});
  EXPECT_THAT(two[0].toDoubles(),
              Pointwise(DoubleNear(1e-12), {0.4 * 0.2, 0.6 * 0.2, 0.4 * 0.8, 0.6 * 0.8}));
  EXPECT_THAT(two[1].toDoubles(), ElementsAre(0, 1, 3, 4));
}

TEST(SplineBasis, FunctionsOfAnyDegreeAddUpToOne) {
  for (const std::int64_t degree : {1, 2, 3}) {
    const HostTensor basis = evaluate(kSplineBasis,
                                      {{"degree", degree}},
                                      {f64({3, 1}, {0.05, 0.41, 0.93}), i64({7}), i64({1})})[0];
    const HostTensor sums = evaluate(kReduceSum, {{"axes", {1}}}, {basis})[0];
    EXPECT_THAT(sums.toDoubles(), Each(DoubleNear(1.0, 1e-12))) << degree;
  }
  // The quadratic and cubic ones in the middle of an interval: (1/8, 6/8, 1/8), (1, 23, 23, 1)/48.
  const std::vector<HostTensor> half = {f64({1, 1}, {0.5}), i64({1}), i64({0})};
  EXPECT_THAT(evaluate(kSplineBasis, {{"degree", 2}}, half)[0].toDoubles(),
              Pointwise(DoubleNear(1e-12), {0.125, 0.75, 0.125}));
  EXPECT_THAT(evaluate(kSplineBasis, {{"degree", 3}}, half)[0].toDoubles(),
              Pointwise(DoubleNear(1e-12), {1.0 / 48, 23.0 / 48, 23.0 / 48, 1.0 / 48}));
}

TEST(SplineWeighting, MixesWeightsPerEdge) {
  const HostTensor x = f64({2, 2}, {1, 2, 3, 4});
  const HostTensor weight = f64({3, 2, 1}, {1, 1, 10, 100, 5, 0});
  const HostTensor basis = f64({2, 2}, {0.5, 0.5, 1, 2});
  const HostTensor picked = HostTensor::of<std::int64_t>({2, 2}, {0, 1, 2, 0});
  // Edge 0: (1 + 2) / 2 + (10 + 200) / 2. Edge 1: 15 + 2 (3 + 4).
  EXPECT_THAT(evaluate(kSplineWeighting, {}, {x, weight, basis, picked})[0].toDoubles(),
              ElementsAre(106.5, 29));
}

TEST(Splines, RefuseWhatDoesNotFit) {
  const HostTensor pseudo(DType::F32, Shape{4, 2});
  EXPECT_THAT(refusal(kSplineBasis, {pseudo, i64({3}), i64({1, 1})}), HasSubstr("[edges, axes]"));
  EXPECT_THAT(refusal(kSplineBasis, {pseudo, i64({3, 3}), i64({1, 1})}, {{"degree", 4}}),
              HasSubstr("degree"));
  const HostTensor wide(DType::F32, Shape{1, 30});
  const HostTensor many(DType::I64, Shape{30});
  EXPECT_THAT(refusal(kSplineBasis, {wide, many, many}), HasSubstr("products"));
  EXPECT_THAT(refusal(kSplineWeighting,
                      {pseudo,
                       HostTensor(DType::F32, Shape{3, 3, 1}),
                       HostTensor(DType::F32, Shape{4, 2}),
                       HostTensor(DType::I64, Shape{4, 2})}),
              HasSubstr("[kernel, in, out]"));
}

}  // namespace
}  // namespace sluice::ops
