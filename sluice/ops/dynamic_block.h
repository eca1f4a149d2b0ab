// Shared by dynamic_slice and dynamic_update: a block of a tensor at offsets that an operand gives.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// Throws InvalidArgument unless `axes` are axes of `whole`, each once, and input 1 holds one
/// offset (i32 or i64) for each.
void checkDynamicAxes(const ir::OpView& op, const Shape& whole);

/// Visits the block of shape `block` in `whole` by runs of contiguous elements: f(start in the
/// whole, start in the block, length). Throws InvalidArgument if it does not lie inside.
void forEachBlockRun(const ir::KernelArgs& args,
                     const Shape& whole,
                     const Shape& block,
                     FunctionRef<void(std::int64_t, std::int64_t, std::int64_t)> visit);

}  // namespace sluice::ops
