// Recomputation: the backward pass of a stage makes the activations again instead of keeping them.
// Only pure ops are repeated, with the same kernels on the same values, so no result changes.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// On a placed graph: for every stage before number `last`, forward values that its backward reads
/// are made again there. Kept are what comes from another stage, what goes to
/// another stage, marked checkpoints, and what only an op with an effect can make. The last stage
/// (the first of several, if they are concurrent) runs its backward at once and keeps everything.
void recomputeActivations(ir::Graph& graph, std::int32_t last);

}  // namespace sluice::parallel
