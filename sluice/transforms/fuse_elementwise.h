// Groups element-wise ops into `fused` ops (sluice/ops/fused.cpp), which read and write memory
// once. Values keep their bits (rule R5): a body rounds every intermediate to its declared type.
#pragma once

#include <cstddef>

#include "sluice/base/function_ref.h"
#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Limits of one group; they keep kernels and their operand lists small. The rule of AdamW with a
/// factor of the gradient, 14 operands, is one group.
inline constexpr std::size_t kMaxFusedOps = 24;
inline constexpr std::size_t kMaxFusedOperands = 16;

/// Fuses chains and trees of element-wise ops with one result shape and placement. Scalar constants
/// move into the bodies.
bool fuseElementwise(ir::Graph& graph);

/// Says whether a fused op may be in the graph, that is, whether its devices have kernels for it.
using Accepts = FunctionRef<bool(const ir::OpView&, const ir::Placement&)>;
bool fuseElementwiseIf(ir::Graph& graph, Accepts accepts);

/// Fuses a matmul or convolution with the element-wise (or fused) ops that follow it, if only they
/// read its result. Run it after fuseElementwise.
bool fuseEpilogues(ir::Graph& graph);
bool fuseEpiloguesIf(ir::Graph& graph, Accepts accepts);

}  // namespace sluice::transforms
