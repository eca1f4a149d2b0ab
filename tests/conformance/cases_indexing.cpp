// Ops that pick or place elements by index, and ops on images.
#include "sluice/ops/image_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

namespace {

Operand numbers(Shape shape, std::initializer_list<float> values) {
  return {{DType::F32, shape}, 0, 0, HostTensor::of<float>(shape, values)};
}

std::vector<OpCase> elementCases() {
  const Operand twice = indices({2, 3}, {0, 2, -1, 0, 1, 3});
  return {
      {kBucketize, {f32({3, 5}, -2, 2), numbers({3}, {-1, 0, 1})}},
      {kBucketize, {i32({7}, -3, 3), i32({1}, 0, 1)}, {{"right", true}}, "right"},
      {kBucketize, {f32({0}), f32({2})}, {}, "empty"},
      {kDynamicSlice,
       {f32({4, 3, 5}), indices({2}, {1, 3})},
       {{"axes", {0, 2}}, {"sizes", {2, 2}}}},
      {kDynamicSlice, {f32({4, 3}), indices({1}, {2})}, {{"axes", {-2}}, {"sizes", {0}}}, "empty"},
      {kDynamicUpdate, {f32({4, 3, 5}), indices({2}, {1, 3}), f32({2, 3, 2})}, {{"axes", {0, 2}}}},
      {kDynamicUpdate, {f32({4, 3}), indices({1}, {4}), f32({0, 3})}, {{"axes", {0}}}, "empty"},
      {kGatherElements, {f32({4, 3}), twice}},
      {kGatherElements, {f32({2, 3, 4}), i32({2, 3, 6}, -4, 4)}, {{"axis", -1}}, "inner"},
      {kGatherElements, {f32({2, 0}), indices({2, 0}, {})}, {{"axis", 1}}, "empty"},
      {kGatherNd, {f32({3, 4, 2}), indices({2, 2}, {0, -1, 2, 1})}},
      {kGatherNd, {f32({3, 4}), i32({2, 2, 2}, -3, 3)}, {}, "elements"},
      {kGatherNd,
       {f32({2, 3, 4}), indices({2, 2, 1}, {0, 2, -1, 1})},
       {{"batchDims", 1}},
       "batches"},
      {kGatherNd, {f32({3, 4}), indices({0, 1}, {})}, {}, "empty"},
      {kReverseSequence, {f32({4, 3, 2}), indices({3}, {4, 1, 3})}},
      {kReverseSequence,
       {f32({3, 4}), indices({3}, {0, 2, 4})},
       {{"batchAxis", 0}, {"timeAxis", 1}},
       "rows"},
      {kScatterElements, {f32({4, 3}), indices({2, 3}, {0, 2, -1, 1, 1, 2}), f32({2, 3})}},
      {kScatterElements, {f32({4, 3}), twice, f32({2, 3})}, {{"reduction", "add"}}, "add", true, 3},
      {kScatterElements,
       {f32({2, 4}, 0.5, 1.5), indices({2, 3}, {0, 0, 3, 1, 1, 1}), f32({2, 3}, 0.5, 1.5)},
       {{"axis", 1}, {"reduction", "mul"}},
       "mul",
       true,
       4},
      {kScatterElements,
       {f32({4, 3}), indices({3, 2}, {0, 0, 0, 1, 0, 0}), f32({3, 2})},
       {{"reduction", "max"}},
       "max"},
      {kScatterElements,
       {f32({4, 3}), indices({3, 2}, {0, 0, 0, 1, 0, 0}), f32({3, 2})},
       {{"reduction", "min"}},
       "min"},
      {kScatterElements, {f32({4, 3}), indices({0, 3}, {}), f32({0, 3})}, {}, "empty"},
      {kScatterNd, {f32({4, 3, 2}), indices({2, 1}, {3, -4}), f32({2, 3, 2})}},
      {kScatterNd,
       {f32({4, 3}), indices({3, 2}, {3, -1, 0, 0, 3, 2}), f32({3})},
       {{"reduction", "add"}},
       "add",
       true,
       3},
      {kScatterNd,
       {f32({4, 2}, 0.5, 1.5), indices({3, 1}, {1, 2, 1}), f32({3, 2}, 0.5, 1.5)},
       {{"reduction", "mul"}},
       "mul",
       true,
       4},
      {kScatterNd,
       {f32({2, 4}), indices({2, 2, 1}, {1, 3, 0, 2}), f32({2, 2})},
       {{"batchDims", 1}},
       "batches"},
      {kSequenceRows,
       {indices({2}, {2, 1}), indices({2}, {1, 0}), indices({2}, {0, 3})},
       {{"sourceRows", 3}, {"rows", 5}}},
      {kTopK, {f32({3, 5})}, {{"k", 3}}},
      {kTopK, {f32({2, 4, 3})}, {{"k", 2}, {"axis", 1}, {"largest", false}}, "smallest"},
      {kTopK, {f32({3, 4})}, {{"k", 0}}, "none"},
      {kTopK, {i32({3, 6}, -3, 3)}, {{"k", 6}}, "sort"},
  };
}

std::vector<OpCase> resizeCases() {
  return {
      {kResize, {f32({2, 2, 3, 4})}, {{"sizes", {2, 2, 5, 6}}}},
      {kResize,
       {f32({1, 2, 3, 4})},
       {{"sizes", {1, 2, 6, 6}},
        {"scales", std::vector<double>{1.0, 1.0, 2.0, 1.5}},
        {"mode", "linear"}},
       "linear",
       true,
       8},
      {kResize,
       {f32({2, 5, 4})},
       {{"sizes", {3, 3, 7}}, {"mode", "cubic"}, {"excludeOutside", true}},
       "cubic",
       true,
       16},
      {kResize,
       {f32({1, 5, 4})},
       {{"sizes", {1, 3, 6}}, {"mode", "linear"}, {"coordinates", "align_corners"}},
       "corners",
       true,
       8},
      {kResize,
       {f32({4, 5})},
       {{"sizes", {3, 3}},
        {"mode", "linear"},
        {"coordinates", "tf_crop_and_resize"},
        {"roi", std::vector<double>{0.4, 0.6, 1.2, 0.9}},
        {"extrapolationValue", 10.0}},
       "crop",
       true,
       8},
      {kResize, {i32({2, 3}, -9, 9)}, {{"sizes", {4, 3}}, {"nearest", "ceil"}}, "integers"},
      {kResize, {f32({2, 3})}, {{"sizes", {2, 3}}, {"mode", "linear"}}, "same"},
      {kResize, {f32({0, 3})}, {{"sizes", {0, 5}}, {"mode", "linear"}}, "empty"},
  };
}

/// Places between -1.2 and 1.2, none of them where the samples have a kink.
Operand grid() {
  return numbers({2, 2, 3, 2}, {-1.13F, -0.71F, 0.13F,  0.52F, 0.93F,  1.12F,  -0.31F, 0.23F,
                                0.67F,  -0.94F, -0.87F, 0.41F, 0.33F,  -0.57F, 1.17F,  0.11F,
                                -0.13F, -1.07F, 0.57F,  0.77F, -0.47F, -0.17F, 0.07F,  0.87F});
}

std::vector<OpCase> imageCases() {
  Operand regions =
      numbers({3, 4}, {0.3F, 0.7F, 3.9F, 4.2F, 1.1F, 0.2F, 2.3F, 2.9F, 2.6F, 3.1F, 7.4F, 8.7F});
  regions.differentiate = false;
  const Operand images = indices({3}, {0, 1, 0});
  const ir::Attrs pooled = {{"rows", 2}, {"columns", 3}, {"spatialScale", 0.7}};
  const ir::Attrs largest = {
      {"rows", 2}, {"columns", 2}, {"samplingRatio", 2}, {"halfPixel", false}, {"mode", "max"}};
  std::vector<OpCase> cases = {
      // The gradient passes to the images only; a test of its own shows that it is right.
      {kRoiAlign, {f32({2, 2, 5, 6}), regions, images}, pooled, "", true, 16},
      {kRoiAlign, {f32({2, 2, 5, 6}), regions, images}, largest, "max", true, 4},
      {kRoiAlign, {f32({2, 2, 5, 6}), f32({0, 4}), indices({0}, {})}, pooled, "empty", false},
      {kRoiAlignGrad,
       {f32({2, 2, 5, 6}), regions, images, f32({3, 2, 2, 3})},
       pooled,
       "",
       true,
       64},
      {kRoiAlignGrad,
       {f32({2, 2, 5, 6}), regions, images, f32({3, 2, 2, 2})},
       largest,
       "max",
       false,
       64},
  };
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const bool align : {false, true}) {
        const ir::Attrs attrs = {{"mode", mode}, {"padding", padding}, {"alignCorners", align}};
        const std::string label = std::string(mode) + "_" + padding + (align ? "_corners" : "");
        cases.push_back({kGridSample, {f32({2, 2, 4, 5}), grid()}, attrs, label, true, 16});
        cases.push_back({kGridSampleGrad,
                         {f32({2, 2, 4, 5}), grid(), f32({2, 2, 2, 3})},
                         attrs,
                         label,
                         false,
                         64});
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<OpCase> indexingCases() {
  std::vector<OpCase> all = elementCases();
  for (const auto family : {resizeCases, imageCases}) {
    for (OpCase& c : family()) {
      all.push_back(c);
    }
  }
  return all;
}

}  // namespace sluice::testing
