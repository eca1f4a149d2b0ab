#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/parallel/strategy.h"

namespace sluice::parallel {

bool isOffChip(const TensorLocation& location, bool phased) {
  return !location.onChip.value_or(!phased);
}

namespace {

bool isTraining(const ir::Graph& graph) {
  return std::ranges::any_of(
      graph.order(), [&](ir::OpId id) { return graph.op(id).place.pass == ir::Pass::Update; });
}

void requireTensors(const ir::Graph& graph, const LocationPlan& locations) {
  for (const auto& location : locations.tensors) {
    const std::string& name = location.first;
    const bool onChip = location.second;
    const ir::Variable* variable = graph.findVariable(name);
    const bool made =
        std::ranges::any_of(graph.order(), [&](ir::OpId id) { return graph.op(id).name == name; });
    // Inference has fewer tensors than the training that its options come from.
    if (variable == nullptr && !made && isTraining(graph)) {
      raise<InvalidArgument>(
          "setTensorLocation: the model has no variable and no tensor named '{}'", name);
    }
    if (variable != nullptr && !onChip &&
        (variable->role == ir::VariableRole::Buffer ||
         variable->role == ir::VariableRole::StepScalar || variable->type.shape.rank() == 0)) {
      raise<InvalidArgument>("setTensorLocation: '{}' ({} {}) always stays on its device",
                             name,
                             variable->type.str(),
                             ir::name(variable->role));
    }
  }
}

/// Behind ops that only look at a value in another way.
const ir::Op& producerOf(const ir::Graph& graph, ir::Value v) {
  const ir::Op* op = &graph.op(v.op);
  while (op->def->traits.view) {
    op = &graph.op(op->inputs[0].op);
  }
  return *op;
}

}  // namespace

std::vector<MarkedTensor> markedTensors(const ir::Graph& graph) {
  std::vector<MarkedTensor> marked;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (!op.is(ops::kTensorLocation) || op.place.pass != ir::Pass::Forward) {
      continue;
    }
    const ir::Op& producer = producerOf(graph, op.inputs[0]);
    const bool variable = producer.is(ir::kVariable);
    marked.push_back({.name = variable ? producer.attrs.text("var") : producer.name,
                      .producer = producer.id,
                      .onChip = op.attrs.flag("on_chip")});
  }
  return marked;
}

std::set<std::string, std::less<>> remoteVariables(const ir::Graph& graph,
                                                   const LocationPlan& locations,
                                                   bool phased) {
  requireTensors(graph, locations);
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
    const auto own = locations.tensors.find(variable.name);
    const bool off = own != locations.tensors.end()
                         ? !own->second
                         : isOffChip(*location, phased) &&
                               variable.type.shape.elements() >= location->minElements;
    if (movable && off) {
      remote.insert(variable.name);
    }
  }
  return remote;
}

}  // namespace sluice::parallel
