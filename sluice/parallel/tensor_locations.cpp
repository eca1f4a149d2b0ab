#include "sluice/parallel/tensor_locations.h"

namespace sluice::parallel {

bool isOffChip(const TensorLocation& location, bool phased) {
  return !location.onChip.value_or(!phased);
}

std::set<std::string, std::less<>> remoteVariables(const ir::Graph& graph,
                                                   const LocationPlan& locations,
                                                   bool phased) {
  std::set<std::string, std::less<>> assignedInLoop;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ir::kAssign) && op.place.pass != ir::Pass::Update) {
      assignedInLoop.insert(op.attrs.text("var"));
    }
  }
  std::set<std::string, std::less<>> remote;
  for (const ir::Variable& variable : graph.variables()) {
    const TensorLocation* location = nullptr;
    switch (variable.role) {
      case ir::VariableRole::Weight:
        location = &locations.weight;
        break;
      case ir::VariableRole::OptimizerState:
        location = &locations.optimizer;
        break;
      case ir::VariableRole::Accumulator:
        location = &locations.accumulator;
        break;
      case ir::VariableRole::Buffer:
      case ir::VariableRole::StepScalar:
        continue;
    }
    const bool movable =
        variable.role == ir::VariableRole::Accumulator || !assignedInLoop.contains(variable.name);
    if (movable && isOffChip(*location, phased) &&
        variable.type.shape.elements() >= location->minElements) {
      remote.insert(variable.name);
    }
  }
  return remote;
}

}  // namespace sluice::parallel
