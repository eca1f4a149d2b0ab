// Hand-computed values of the ops that pick and place elements and of the ops on images. Gradients
// are checked by the conformance suite, but for those that pass to some operands only.
#include "sluice/ops/indexing_ops.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/interpreter.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> values(const ir::OpDef& def,
                           const std::vector<HostTensor>& inputs,
                           const ir::Attrs& attrs = {}) {
  return evaluate(def, attrs, inputs)[0].toDoubles();
}

HostTensor numbers(const Shape& shape, const std::vector<double>& list) {
  return HostTensor::of<double>(shape, std::span<const double>(list));
}

HostTensor ints(const Shape& shape, const std::vector<std::int64_t>& list) {
  return HostTensor::of<std::int64_t>(shape, std::span<const std::int64_t>(list));
}

/// 1, 2, 3 ... of a shape.
HostTensor counting(const Shape& shape) {
  HostTensor tensor(DType::F64, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    tensor.set(i, static_cast<double>(i + 1));
  }
  return tensor;
}

/// The result of a composition of ops on constants.
template <class F>
HostTensor built(F build) {
  ir::Graph graph("composition");
  GraphBuilder b(graph);
  graph.addOutput("y", build(b));
  TensorMap none;
  return evaluate(graph, {}, none).at("y");
}

TEST(GatherElements, TakesTheIndexOnOneAxisAndItsOwnPlaceOnTheOthers) {
  const HostTensor x = counting({3, 3});
  EXPECT_THAT(values(kGatherElements, {x, ints({2, 3}, {1, 2, 0, -1, 0, 0})}),
              ElementsAre(4, 8, 3, 7, 2, 3));
  EXPECT_THAT(values(kGatherElements, {x, ints({2, 1}, {2, -3})}, {{"axis", 1}}),
              ElementsAre(3, 4));
}

TEST(ScatterElements, TheLastOfEqualIndicesWins) {
  EXPECT_THAT(
      values(kScatterElements, {counting({4}), ints({3}, {1, 3, 1}), numbers({3}, {10, 20, 30})}),
      ElementsAre(1, 30, 3, 20));
}

TEST(ScatterElements, CombinesByItsReduction) {
  const std::vector<HostTensor> operands = {
      counting({4}), ints({3}, {1, 3, 1}), numbers({3}, {10, 0.5, -3})};
  const auto by = [&](const char* reduction) {
    return values(kScatterElements, operands, {{"reduction", reduction}});
  };
  EXPECT_THAT(by("add"), ElementsAre(1, 9, 3, 4.5));
  EXPECT_THAT(by("mul"), ElementsAre(1, -60, 3, 2));
  EXPECT_THAT(by("max"), ElementsAre(1, 10, 3, 4));
  EXPECT_THAT(by("min"), ElementsAre(1, -3, 3, 0.5));
}

TEST(GatherNd, TakesElementsOrSlicesAndWalksBatchesTogether) {
  const HostTensor x = counting({2, 2, 2});
  EXPECT_THAT(values(kGatherNd, {x, ints({2, 3}, {0, 1, 0, 1, 0, -1})}), ElementsAre(3, 6));
  EXPECT_THAT(values(kGatherNd, {x, ints({1, 1}, {-1})}), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(values(kGatherNd, {x, ints({2, 1}, {1, 0})}, {{"batchDims", 1}}),
              ElementsAre(3, 4, 5, 6));
}

TEST(ScatterNd, PlacesSlices) {
  EXPECT_THAT(values(kScatterNd, {counting({3, 2}), ints({1, 1}, {1}), numbers({1, 2}, {9, 8})}),
              ElementsAre(1, 2, 9, 8, 5, 6));
}

TEST(TopK, OrdersByValueThenByPosition) {
  const HostTensor x = numbers({6}, {3, 1, 3, kNan, 2, 1});
  const auto largest = evaluate(kTopK, {{"k", 4}}, {x});
  EXPECT_THAT(largest[1].toDoubles(), ElementsAre(3, 0, 2, 4));
  const auto smallest = evaluate(kTopK, {{"k", 6}, {"largest", false}}, {x});
  EXPECT_THAT(smallest[1].toDoubles(), ElementsAre(1, 5, 4, 0, 2, 3));
}

TEST(ReverseSequence, TurnsOnlyTheFirstSteps) {
  EXPECT_THAT(values(kReverseSequence, {counting({4, 2}), ints({2}, {3, 1})}),
              ElementsAre(5, 2, 3, 4, 1, 6, 7, 8));
}

TEST(ArgMin, FindsTheFirstSmallestOfEveryKindOfNumber) {
  const auto smallest = [](const HostTensor& x) {
    return built([&](GraphBuilder& b) { return argMin(b, b.constant(x), 0); }).at(0);
  };
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::lowest();
  EXPECT_EQ(smallest(numbers({4}, {2, -1, -1, 5})), 1);
  EXPECT_EQ(smallest(ints({3}, {0, kLowest, 7})), 1);
  EXPECT_EQ(smallest(HostTensor::of<std::uint8_t>({4}, {255, 3, 0, 0})), 2);
}

TEST(DepthToSpace, IsUndoneBySpaceToDepth) {
  const HostTensor x = counting({1, 8, 2, 3});
  const HostTensor columns = built([&](GraphBuilder& b) {
    return depthToSpace(b, b.constant(counting({1, 4, 1, 1})), 2, false);
  });
  EXPECT_THAT(columns.toDoubles(), ElementsAre(1, 2, 3, 4));
  const HostTensor back =
      built([&](GraphBuilder& b) { return spaceToDepth(b, depthToSpace(b, b.constant(x), 2), 2); });
  EXPECT_TRUE(back.sameBits(x));
}

TEST(Bucketize, CountsTheBoundariesBelow) {
  const HostTensor bounds = numbers({3}, {0, 1, 2});
  const HostTensor x = numbers({5}, {-1, 0, 1.5, 2, kNan});
  EXPECT_THAT(values(kBucketize, {x, bounds}), ElementsAre(0, 0, 2, 2, 3));
  EXPECT_THAT(values(kBucketize, {x, bounds}, {{"right", true}}), ElementsAre(0, 1, 2, 3, 3));
}

TEST(DynamicSlice, TakesTheBlockThatTheOffsetsName) {
  EXPECT_THAT(values(kDynamicSlice,
                     {counting({3, 4}), ints({2}, {1, 2})},
                     {{"axes", {0, 1}}, {"sizes", {2, 2}}}),
              ElementsAre(7, 8, 11, 12));
}

TEST(DynamicUpdate, ReplacesTheBlock) {
  EXPECT_THAT(values(kDynamicUpdate,
                     {counting({3, 2}), ints({1}, {1}), numbers({1, 2}, {-1, -2})},
                     {{"axes", {0}}}),
              ElementsAre(1, 2, -1, -2, 5, 6));
}

TEST(SequenceRows, NamesTheSourceOfEachRow) {
  EXPECT_THAT(values(kSequenceRows,
                     {ints({2}, {2, 2}), ints({2}, {1, 3}), ints({2}, {0, 1})},
                     {{"sourceRows", 5}, {"rows", 4}}),
              ElementsAre(1, 3, 4, -1));
}

TEST(Resize, InterpolatesBetweenPixelCentres) {
  EXPECT_THAT(values(kResize, {numbers({2}, {0, 4})}, {{"sizes", {4}}, {"mode", "linear"}}),
              ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(values(kResize,
                     {numbers({2}, {0, 4})},
                     {{"sizes", {3}}, {"mode", "linear"}, {"coordinates", "align_corners"}}),
              ElementsAre(0, 2, 4));
}

TEST(Resize, NearestRoundsAsItsModeSays) {
  // The places are 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5 and 1.75.
  const auto by = [](const char* mode) {
    return values(kResize,
                  {counting({2})},
                  {{"sizes", {8}}, {"coordinates", "asymmetric"}, {"nearest", mode}});
  };
  EXPECT_THAT(by("floor"), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
  EXPECT_THAT(by("ceil"), ElementsAre(1, 2, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(by("round_prefer_floor"), ElementsAre(1, 1, 1, 2, 2, 2, 2, 2));
  EXPECT_THAT(by("round_prefer_ceil"), ElementsAre(1, 1, 2, 2, 2, 2, 2, 2));
}

TEST(Resize, CubicKeepsStraightLinesInside) {
  const auto y = values(
      kResize, {counting({6})}, {{"sizes", {12}}, {"mode", "cubic"}, {"cubicCoefficient", -0.5}});
  EXPECT_NEAR(y[5], 3.25, 1e-12);
  EXPECT_NEAR(y[6], 3.75, 1e-12);
}

TEST(Resize, LongAxesKeepStraightLinesToo) {
  // Too long for a matrix; element i lies at 1.5 (i + 0.5) - 0.5 and has that value plus 1.
  const auto y = values(kResize, {counting({3000})}, {{"sizes", {2000}}, {"mode", "linear"}});
  EXPECT_NEAR(y[0], 1.25, 1e-9);
  EXPECT_NEAR(y[1001], 1502.75, 1e-9);
  EXPECT_NEAR(y[1999], 2999.75, 1e-9);
}

TEST(GridSample, ReadsTheImageAtTheGridsPlaces) {
  const HostTensor x = counting({1, 1, 2, 2});
  const HostTensor grid = numbers({1, 1, 3, 2}, {-1, -1, 0, 0, 1, 0});
  EXPECT_THAT(values(kGridSample, {x, grid}, {{"alignCorners", true}}), ElementsAre(1, 2.5, 3));
  // Without aligned corners -1 is the outer edge: a quarter of the corner, half of a side.
  EXPECT_THAT(values(kGridSample, {x, grid}), ElementsAre(0.25, 2.5, 1.5));
  EXPECT_THAT(values(kGridSample, {x, grid}, {{"padding", "border"}}), ElementsAre(1, 2.5, 3));
}

TEST(GridSample, TakesPlacesThatAreNoNumbersAsOutside) {
  const HostTensor grid = numbers({1, 1, 1, 2}, {kNan, 1e300});
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    EXPECT_THAT(values(kGridSample, {counting({1, 1, 2, 2}), grid}, {{"mode", mode}}),
                ElementsAre(0));
  }
}

TEST(RoiAlign, AveragesSamplesInsideTheCell) {
  // One sample in the middle of the cell, at (1, 1) after the half pixel.
  const HostTensor x = counting({1, 1, 4, 4});
  const HostTensor region = numbers({1, 4}, {0.5, 0.5, 2.5, 2.5});
  const ir::Attrs attrs = {{"samplingRatio", 1}};
  EXPECT_THAT(values(kRoiAlign, {x, region, ints({1}, {0})}, attrs), ElementsAre(6));
  const ir::Attrs largest = {{"samplingRatio", 2}, {"mode", "max"}};
  EXPECT_THAT(values(kRoiAlign, {x, region, ints({1}, {0})}, largest), ElementsAre(8.5));
}

/// avg is linear in the images, so <dy, A x> = <A' dy, x> for any x and dy; max has the gradient of
/// the sample it took, which gives the same sum.
TEST(RoiAlign, ItsGradientIsTheTransposedMap) {
  const HostTensor x = counting({2, 2, 5, 6});
  const HostTensor regions = numbers({2, 4}, {0.3, 0.7, 3.9, 4.2, 1.1, -3, 7.3, 2.9});
  const HostTensor images = ints({2}, {1, 0});
  for (const char* mode : {"avg", "max"}) {
    const ir::Attrs attrs = {{"rows", 2}, {"columns", 3}, {"mode", mode}};
    const HostTensor y = evaluate(kRoiAlign, attrs, {x, regions, images})[0];
    const HostTensor dy = counting(y.shape());
    const HostTensor dx = evaluate(kRoiAlignGrad, attrs, {x, regions, images, dy})[0];
    double forward = 0;
    for (std::int64_t i = 0; i < y.shape().elements(); ++i) {
      forward += y.at(i) * dy.at(i);
    }
    double backward = 0;
    for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
      backward += x.at(i) * dx.at(i);
    }
    EXPECT_NEAR(forward, backward, 1e-9 * forward) << mode;
  }
}

}  // namespace
}  // namespace sluice::ops
