#include "sluice/compile/weight_parts.h"

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::compiler {

std::set<std::string, std::less<>> weightsInParts(const ir::Graph& graph,
                                                  const program::StatePlan& state,
                                                  const parallel::TensorLocation& location,
                                                  std::int32_t replicas,
                                                  std::vector<std::string>& warnings) {
  std::set<std::string, std::less<>> weights;
  for (const ir::Variable& variable : graph.variables()) {
    const program::PlacedVariable* known = state.find(variable.name);
    const bool split = known != nullptr && known->variable.split.has_value();
    const bool wanted = location.sharded && replicas > 1 &&
                        variable.type.shape.elements() >= location.minElementsToShard;
    if (variable.role != ir::VariableRole::Weight) {
      continue;
    }
    if (wanted && known != nullptr && !split) {
      warnings.push_back(fmt::format(
          "weight '{}' stays whole: another model of the module has it whole in every replica",
          variable.name));
      continue;
    }
    if (split && known->variable.split->parts != replicas) {
      raise<InvalidArgument>(
          "weight '{}' is kept in parts by {} replicas of another model of the module: this one "
          "has {}; give it replicationFactor({})",
          variable.name,
          known->variable.split->parts,
          replicas,
          known->variable.split->parts);
    }
    if (split || wanted) {
      weights.insert(variable.name);
    }
  }
  return weights;
}

}  // namespace sluice::compiler
