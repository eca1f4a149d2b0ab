// The elements selected by starts, ends and steps, for slice, slice_scatter and device kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ops/layout.h"

namespace sluice::ops {

/// Coordinates start, start + step, ... of one axis; `step` may be negative.
struct SliceAxis {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

/// One entry per axis of `shape`, from the attributes starts, ends and steps (empty: all 1),
/// clamped as in NumPy. Throws InvalidArgument for lists of another length and for a step of 0.
std::vector<SliceAxis> sliceAxes(const ir::OpView& op, const Shape& shape);

/// Maps each element of the slice to its element in a tensor of `shape`.
AxisMap sliceMap(const ir::OpView& op, const Shape& shape);

}  // namespace sluice::ops
