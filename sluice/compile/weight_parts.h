// Which weights the replicas keep in parts.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/tensor_locations.h"
#include "sluice/program/state_plan.h"

namespace sluice::compiler {

/// The weights of a graph that replicas keep in parts: as other models of the module have them,
/// else as the location says. Throws InvalidArgument if they are those of another number of
/// replicas.
std::set<std::string, std::less<>> weightsInParts(const ir::Graph& graph,
                                                  const program::StatePlan& state,
                                                  const parallel::TensorLocation& location,
                                                  std::int32_t replicas,
                                                  std::vector<std::string>& warnings);

}  // namespace sluice::compiler
