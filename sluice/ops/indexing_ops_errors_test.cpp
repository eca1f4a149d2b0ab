// What the ops that pick and place elements and the ops on images refuse: the type of the error and
// the word that says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/interpreter.h"
#include "tests/support/message_of.h"
#include "tests/support/refusals.h"

namespace sluice::ops {
namespace {

using sluice::testing::expectRefused;
using sluice::testing::messageOf;
using ::testing::HasSubstr;

TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}
TensorType i64(Shape shape) {
  return {DType::I64, std::move(shape)};
}

std::string refusalOf(const ir::OpDef& def,
                      const ir::Attrs& attrs,
                      const std::vector<HostTensor>& inputs) {
  return messageOf([&] { evaluate(def, attrs, inputs); });
}

HostTensor ints(const Shape& shape, std::initializer_list<std::int64_t> list) {
  return HostTensor::of<std::int64_t>(shape, list);
}

TEST(ElementErrors, NameOpAndReason) {
  const TensorType x = f32({3, 4});
  expectRefused({
      {kGatherElements, {x, f32({3, 4})}, {}, "i32 or i64"},
      {kGatherElements, {x, i64({3})}, {}, "rank"},
      {kGatherElements, {x, i64({3, 5})}, {}, "no larger extents"},
      {kGatherElements, {x, i64({3, 4})}, {{"axis", 2}}, "out of range"},
      {kScatterElements, {x, i64({2, 4}), f32({2, 3})}, {}, "updates must be"},
      {kScatterElements, {x, i64({2, 4}), i64({2, 4})}, {}, "updates must be"},
      {kScatterElements, {x, i64({2, 4}), f32({2, 4})}, {{"reduction", "or"}}, "reduction"},
      {kScatterElements,
       {{DType::Bool, {3}}, i64({2}), {DType::Bool, {2}}},
       {{"reduction", "add"}},
       "number"},
      {kGatherNd, {x, i64({2, 3})}, {}, "coordinates"},
      {kGatherNd, {x, i64({})}, {}, "coordinates"},
      {kGatherNd, {x, i64({2, 1})}, {{"batchDims", 1}}, "batch axes"},
      {kGatherNd, {x, i64({3, 1})}, {{"batchDims", 2}}, "batch axes"},
      {kScatterNd, {x, i64({2, 1}), f32({2, 3})}, {}, "updates must be"},
      {kTopK, {x}, {{"k", 5}}, "does not have 5"},
      {kTopK, {x}, {{"k", -1}}, "does not have -1"},
      {kReverseSequence, {x, i64({3})}, {}, "one length"},
      {kReverseSequence, {x, i64({4})}, {{"timeAxis", 1}}, "axes 0 and 1"},
      {kReverseSequence, {f32({3}), i64({3})}, {}, "axes 0 and 1"},
  });
}

TEST(ElementErrors, NameTheIndexThatIsOutOfRange) {
  const HostTensor x(DType::F32, {3, 4});
  EXPECT_THAT(refusalOf(kGatherElements, {}, {x, ints({1, 1}, {3})}), HasSubstr("index 3"));
  EXPECT_THAT(refusalOf(kGatherNd, {}, {x, ints({1, 2}, {0, -5})}), HasSubstr("index -5"));
  EXPECT_THAT(refusalOf(kReverseSequence, {}, {x, ints({4}, {0, 1, 4, 0})}),
              HasSubstr("length 4 of sequence 2"));
}

TEST(DynamicErrors, NameOpAndReason) {
  const TensorType x = f32({3, 4});
  expectRefused({
      {kDynamicSlice, {x, i64({1})}, {{"axes", {2}}, {"sizes", {1}}}, "out of range"},
      {kDynamicSlice, {x, i64({2})}, {{"axes", {0, 0}}, {"sizes", {1, 1}}}, "given twice"},
      {kDynamicSlice, {x, i64({2})}, {{"axes", {0}}, {"sizes", {1}}}, "1 offsets"},
      {kDynamicSlice, {x, i64({1})}, {{"axes", {0}}, {"sizes", {1, 2}}}, "1 sizes"},
      {kDynamicSlice, {x, i64({1})}, {{"axes", {0}}, {"sizes", {4}}}, "does not fit"},
      {kDynamicUpdate, {x, i64({1}), f32({2, 3})}, {{"axes", {0}}}, "does not fit"},
      {kSequenceRows,
       {i64({2}), i64({2}), i64({1})},
       {{"sourceRows", 1}, {"rows", 1}},
       "one length"},
      {kSequenceRows,
       {i64({1}), i64({1}), i64({1})},
       {{"sourceRows", -1}, {"rows", 1}},
       "negative"},
      {kBucketize, {x, f32({2, 2})}, {}, "one axis"},
      {kBucketize, {x, i64({2})}, {}, "one element type"},
  });
  const HostTensor whole(DType::F32, {3, 4});
  EXPECT_THAT(refusalOf(kDynamicSlice, {{"axes", {0}}, {"sizes", {2}}}, {whole, ints({1}, {2})}),
              HasSubstr("offset 2"));
  EXPECT_THAT(refusalOf(kSequenceRows,
                        {{"sourceRows", 3}, {"rows", 3}},
                        {ints({1}, {2}), ints({1}, {2}), ints({1}, {0})}),
              HasSubstr("run 0 of 2 rows from 2 to 0"));
}

TEST(ImageErrors, NameOpAndReason) {
  const TensorType x = f32({1, 2, 4, 4});
  const ir::Attrs same = {{"sizes", {1, 2, 4, 4}}};
  const auto with = [&](ir::NamedAttr attr) {
    ir::Attrs attrs = same;
    attrs.set(std::move(attr));
    return attrs;
  };
  expectRefused({
      {kResize, {x}, {{"sizes", {4}}}, "one item for each"},
      {kResize, {x}, with({"scales", std::vector<double>{1.0}}), "4 scales"},
      {kResize, {x}, with({"scales", std::vector<double>{1, 1, 0, 1}}), "above 0"},
      {kResize, {x}, with({"roi", std::vector<double>{1.0}}), "bounds of the region"},
      {kResize, {x}, with({"mode", "best"}), "mode"},
      {kResize, {x}, with({"nearest", "up"}), "nearest"},
      {kResize, {x}, with({"coordinates", "whole"}), "coordinates"},
      {kResize, {f32({0})}, {{"sizes", {2}}}, "no elements"},
      {kGridSample, {x, f32({1, 2, 2, 3})}, {}, "grid"},
      {kGridSample, {x, f32({2, 2, 2, 2})}, {}, "grid"},
      {kGridSample, {x, f32({1, 2, 2, 2})}, {{"padding", "none"}}, "padding"},
      {kGridSampleGrad, {x, f32({1, 2, 2, 2}), f32({1, 2, 2, 3})}, {}, "output gradient"},
      {kRoiAlign, {x, f32({3, 5}), i64({3})}, {}, "regions [count, 4]"},
      {kRoiAlign, {x, f32({3, 4}), i64({2})}, {}, "one index for each"},
      {kRoiAlign, {x, f32({3, 4}), i64({3})}, {{"rows", 0}}, "at least 1"},
      {kRoiAlign, {x, f32({3, 4}), i64({3})}, {{"samplingRatio", -1}}, "samplingRatio"},
      {kRoiAlignGrad, {x, f32({3, 4}), i64({3}), f32({3, 2, 1, 2})}, {}, "output gradient"},
  });
}

TEST(ImageErrors, RegionsMustBeOfAnImageAndOfASensibleSize) {
  const HostTensor x(DType::F32, {1, 1, 4, 4});
  const HostTensor huge = HostTensor::of<float>({1, 4}, {0, 0, 1e9F, 1});
  EXPECT_THAT(refusalOf(kRoiAlign, {}, {x, huge, ints({1}, {0})}), HasSubstr("samples per cell"));
  EXPECT_THAT(refusalOf(kRoiAlign, {}, {x, HostTensor(DType::F32, {1, 4}), ints({1}, {1})}),
              HasSubstr("index 1"));
}

TEST(ImageErrors, BlocksOfPixelsMustDivideTheImage) {
  ir::Graph graph("blocks");
  GraphBuilder b(graph);
  const Value x = b.input("x", f32({1, 6, 3, 3}));
  EXPECT_THAT(messageOf([&] { depthToSpace(b, x, 2); }), HasSubstr("blocks of 2"));
  EXPECT_THAT(messageOf([&] { spaceToDepth(b, x, 2); }), HasSubstr("blocks of 2"));
}

}  // namespace
}  // namespace sluice::ops
