// Shared by roi_align and its gradient: the cells of a region, and the elements that a sample
// reads.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/base/function_ref.h"
#include "sluice/ir/op_def.h"
#include "sluice/ops/image_ops.h"

namespace sluice::ops {

inline constexpr std::array<ir::AttrSpec, 6> kRoiAlignAttrs = {
    {{.name = "rows", .kind = ir::AttrKind::Int, .integer = 1},
     {.name = "columns", .kind = ir::AttrKind::Int, .integer = 1},
     {.name = "samplingRatio", .kind = ir::AttrKind::Int},
     {.name = "spatialScale", .kind = ir::AttrKind::Real, .real = 1.0},
     {.name = "halfPixel", .kind = ir::AttrKind::Bool, .integer = 1},
     {.name = "mode", .kind = ir::AttrKind::Text, .text = "avg"}}};

/// Checks the attributes and the first three operands, and returns the type of the result.
TensorType inferRoiAlign(const ir::OpView& op);
ir::Attrs roiAlignAttrs(const RoiAlignOptions& options);

/// One sample: four elements of an image and their weights.
struct RoiSample {
  std::array<std::int64_t, 4> index = {};
  std::array<double, 4> weight = {};  ///< all 0 far outside of the image
};
/// All samples of one cell of the result; `firstOutput` is the cell's element in the first channel.
struct RoiCell {
  std::int64_t image = 0;
  std::int64_t firstOutput = 0;
  std::vector<RoiSample> samples;
};
/// Visits every cell of every region. Throws InvalidArgument for a region that refers to no image
/// or requests too many samples.
void forEachRoiCell(const ir::KernelArgs& args, FunctionRef<void(const RoiCell&)> visit);

/// The sample's value in the plane of one channel.
template <class T>
double valueOf(const RoiSample& sample, const T* plane, auto widened) {
  double value = 0.0;
  for (std::size_t i = 0; i < 4; ++i) {
    value += sample.weight[i] * widened(plane[sample.index[i]]);
  }
  return value;
}

}  // namespace sluice::ops
