// Recomputation: the backward pass of a stage computes activations again instead of keeping them.
// Only pure ops are repeated, with the same kernels on the same values, so no result changes.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// What is recomputed. These values are always kept: those that come from or go to another stage,
/// marked checkpoints, and those that only an op with an effect can make.
enum class RecomputeRule : std::uint8_t {
  /// Everything except in the last stage (of concurrent last stages, the first), whose backward
  /// pass follows at once.
  Pipeline,
  All,       ///< everything, also in the last stage
  NormOnly,  ///< normalizations and the element-wise ops that follow them
  Standard   ///< all but the values at a few points of each stage, chosen for the lowest peak
};

/// Takes a placed graph. Forward values that the backward pass of their stage reads are recomputed
/// there. `last` is the number of the last stage. Returns the forward ops that are repeated.
std::unordered_set<ir::OpId> recomputeActivations(ir::Graph& graph,
                                                  RecomputeRule rule,
                                                  std::int32_t last);

}  // namespace sluice::parallel
