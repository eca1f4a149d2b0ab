#include "sluice/optim/state.h"

#include "sluice/optim/loss_scaler.h"

namespace sluice::optim {

std::vector<ir::Variable> stateVariables(const Optimizer& optimizer,
                                         std::span<const ir::Variable> weights,
                                         const std::optional<LossScalingOptions>& lossScaling) {
  // The rule itself declares its state; here it is expanded for gradients that nothing computes.
  ir::Graph graph("state");
  ir::GraphBuilder b(graph);
  std::vector<Gradient> gradients;
  for (const ir::Variable& weight : weights) {
    if (weight.role == ir::VariableRole::Weight && weight.trainable && isFloat(weight.type.dtype)) {
      graph.addVariable(weight);
      gradients.push_back({weight.name, b.input("gradient/" + weight.name, weight.type)});
    }
  }
  UpdateContext context(b, std::move(gradients));
  if (lossScaling) {
    const LossScaler scaler(*lossScaling, context.scalarType());
    scaler.declareState(context);
    context.setLossFactor(scaler.factor(b));
  }
  optimizer.expand(context);
  std::vector<ir::Variable> state;
  for (const ir::Variable& variable : graph.variables()) {
    if (variable.role == ir::VariableRole::OptimizerState ||
        variable.role == ir::VariableRole::Accumulator) {
      state.push_back(variable);
    }
  }
  return state;
}

}  // namespace sluice::optim
