// Shared by dynamic_slice and dynamic_update: a block of a tensor whose offsets are an operand.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/ir/op_def.h"

namespace sluice::ops {

/// Throws InvalidArgument unless `axes` are distinct axes of `whole` and input 1 holds one offset
/// (i32 or i64) for each of them.
void checkDynamicAxes(const ir::OpView& op, const Shape& whole);

/// Visits the block of shape `block` in `whole` by contiguous runs: calls visit(start in the whole,
/// start in the block, length). Throws InvalidArgument if the block does not lie inside.
void forEachBlockRun(const ir::KernelArgs& args,
                     const Shape& whole,
                     const Shape& block,
                     FunctionRef<void(std::int64_t, std::int64_t, std::int64_t)> visit);

}  // namespace sluice::ops
