// Weights in parts: every replica keeps one part of a weight, and the passes that read the weight
// gather it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// The named weights become variables of parts. Each pass of each block gathers those it reads
/// anew, so that none keeps a whole weight for another; what assigns one is given a part
/// (shardUpdates then computes no more than that). Weights in parts stay as they are. Changes no
/// bit of a weight.
void shardWeights(ir::Graph& graph,
                  const std::set<std::string, std::less<>>& weights,
                  std::int32_t replicas);

}  // namespace sluice::transforms
