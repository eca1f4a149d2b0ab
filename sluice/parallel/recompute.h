// Recomputation: the backward pass of a stage makes the activations again instead of keeping them.
// Only pure ops are repeated, with the same kernels on the same values, so no result changes.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// On a placed graph with `stages` stages: for every stage but the last, forward values that its
/// backward reads are made again there. Kept are what comes from another stage, what goes to
/// another stage, marked checkpoints, and what only an op with an effect can make. The last stage
/// runs its backward at once and keeps everything.
void recomputeActivations(ir::Graph& graph, std::int32_t stages);

}  // namespace sluice::parallel
