// Finds the weights that replicas keep in parts.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/strategy.h"
#include "sluice/program/state_plan.h"

namespace sluice::compiler {

/// The weights of a graph that replicas keep in parts: those that other models of the module keep
/// in parts, otherwise those that the location asks for. Throws InvalidArgument if another model
/// keeps them in parts for another number of replicas.
std::set<std::string, std::less<>> weightsInParts(const ir::Graph& graph,
                                                  const program::StatePlan& state,
                                                  const parallel::TensorLocation& location,
                                                  std::int32_t replicas,
                                                  std::vector<std::string>& warnings);

}  // namespace sluice::compiler
