// UpdateTrainer: runs an optimizer's rule with the reference kernels, one update at a time, on
// weights whose gradients the test gives.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/ir/graph.h"
#include "sluice/ops/interpreter.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/update_context.h"

namespace sluice::testing {

/// A model with some weights, whose gradients are the inputs "g.<weight>".
class UpdateTrainer {
 public:
  UpdateTrainer(const optim::Optimizer& optimizer,
                const std::vector<std::pair<std::string, HostTensor>>& weights) {
    ir::GraphBuilder b(graph_);
    std::vector<optim::Gradient> gradients;
    for (const auto& [name, value] : weights) {
      graph_.addVariable(
          {.name = name, .type = value.type(), .trainable = name != "frozen", .initializer = {}});
      variables_.emplace(name, value);
      gradients.push_back({name, b.input("g." + name, value.type())});
    }
    optim::UpdateContext context(b, gradients);
    optimizer.expand(context);
    for (const ir::Variable& variable : graph_.variables()) {
      variables_.try_emplace(variable.name, ir::initialValue(variable, 0));
    }
  }

  /// Runs one update with these gradients; writes the step scalars first, as the host does.
  void step(const optim::Optimizer& optimizer,
            const ops::TensorMap& gradients,
            double lrFactor = 1.0) {
    for (const auto& [name, value] : optimizer.scalars(lrFactor)) {
      if (const ir::Variable* variable = graph_.findVariable(name)) {
        EXPECT_EQ(variable->role, ir::VariableRole::StepScalar);
        variables_.insert_or_assign(name, HostTensor::full(variable->type, value));
      }
    }
    ops::TensorMap inputs;
    for (const auto& [name, value] : gradients) {
      inputs.emplace("g." + name, value);
    }
    ops::evaluate(graph_, inputs, variables_);
  }

  double value(std::string_view name, std::int64_t i = 0) const {
    return variables_.find(name)->second.at(i);
  }
  bool has(std::string_view name) const { return graph_.findVariable(name) != nullptr; }
  const ir::Graph& graph() const { return graph_; }

 private:
  ir::Graph graph_;
  ops::TensorMap variables_;
};

inline HostTensor one(DType dtype, double value) {
  return HostTensor::full({dtype, Shape{1}}, value);
}

}  // namespace sluice::testing
