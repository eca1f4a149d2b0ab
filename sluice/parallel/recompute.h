// Recomputation: the backward pass of a stage makes the activations again instead of keeping them.
// Only pure ops are repeated, with the same kernels on the same values, so no result changes.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// What is made again. Kept in any case are what comes from another stage, what goes to another
/// stage, marked checkpoints, and what only an op with an effect can make.
enum class RecomputeRule : std::uint8_t {
  /// Everything, but for the last stage (the first of several, if they are concurrent), which runs
  /// its backward at once.
  Pipeline,
  All,       ///< everything, in the last stage, too
  NormOnly,  ///< normalizations and the element-wise ops behind them
  Standard   ///< all but the values at a few points of each stage, chosen for the least peak
};

/// On a placed graph: forward values that the backward pass of their stage reads are made again
/// there. `last` is the number of the last stage. Returns the forward ops that are repeated.
std::unordered_set<ir::OpId> recomputeActivations(ir::Graph& graph,
                                                  RecomputeRule rule,
                                                  std::int32_t last);

}  // namespace sluice::parallel
