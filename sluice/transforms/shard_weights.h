// Weights in parts: every replica keeps one part of a weight, and each pass that reads the weight
// gathers it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Turns the named weights into variables that hold parts. Each pass of each block gathers the
/// weights that it reads again, so that no pass keeps a whole weight for another. Each assign gets
/// a part, and shardUpdates then computes no more than that. Weights that are already in parts stay
/// as they are. Changes no bit of a weight.
void shardWeights(ir::Graph& graph,
                  const std::set<std::string, std::less<>>& weights,
                  std::int32_t replicas);

}  // namespace sluice::transforms
