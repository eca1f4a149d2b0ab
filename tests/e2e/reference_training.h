// Training by the reference kernels, op by op: what a model on a device must follow.
#pragma once

#include <vector>

#include "sluice/compile/training_graph.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/interpreter.h"
#include "sluice/sluice.h"
#include "sluice/transforms/decompose.h"

namespace sluice::testing {

/// The training graph of a network as the API makes it, and its variables from their first values
/// on. Net::inputs() are the types of (x, labels).
template <class Net>
class ReferenceTraining {
 public:
  explicit ReferenceTraining(const optim::Optimizer& optimizer) : graph_("reference") {
    {
      nn::Tracer tracer(graph_, nn::TraceMode::Training);
      const std::vector<TensorType> types = Net::inputs();
      const nn::Tensor x = tracer.input("x", types[0]);
      const nn::Tensor labels = tracer.input("labels", types[1]);
      graph_.addOutput("loss", net_.forward(x, labels).second.value());
    }
    transforms::decompose(graph_, [](const ir::Op&) { return false; });
    compiler::addTraining(graph_, graph_.outputs().back().value, optimizer, {});
    for (const ir::Variable& variable : graph_.variables()) {
      variables_[variable.name] = ir::initialValue(variable, 0);
    }
    for (const auto& [name, value] : optimizer.scalars()) {
      if (const ir::Variable* variable = graph_.findVariable(name)) {
        variables_[name] = HostTensor::full(variable->type, value);
      }
    }
  }

  /// One update; returns the loss.
  HostTensor step(const std::vector<HostTensor>& inputs) {
    return ops::evaluate(graph_, {{"x", inputs[0]}, {"labels", inputs[1]}}, variables_).at("loss");
  }
  const ops::TensorMap& variables() const { return variables_; }

 private:
  Net net_;
  ir::Graph graph_;
  ops::TensorMap variables_;
};

}  // namespace sluice::testing
