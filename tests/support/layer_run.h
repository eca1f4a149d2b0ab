// Helpers for the tests of layers: they trace an expression and evaluate it with the reference
// kernels.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "sluice/nn/module.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/interpreter.h"

namespace sluice::nn {

/// Numbers in [-1, 1] without a pattern that a test could depend on.
inline HostTensor waves(const TensorType& type, double phase) {
  HostTensor tensor(type);
  for (std::int64_t i = 0; i < type.shape.elements(); ++i) {
    tensor.set(i, std::sin(phase + 1.7 * static_cast<double>(i)));
  }
  return tensor;
}

/// The values of all parameters and buffers below a module.
inline ops::TensorMap stateOf(const Module& root) {
  ops::TensorMap state;
  for (const auto& list : {root.parameters(), root.buffers()}) {
    for (const Parameter* parameter : list) {
      state.emplace(parameter->fullName(), parameter->value());
    }
  }
  return state;
}

/// Traces f on the inputs and returns the value of its result. Assignments to buffers change
/// `state`.
template <class F>
HostTensor evaluated(const std::vector<HostTensor>& inputs,
                     F f,
                     ops::TensorMap& state,
                     TraceMode mode = TraceMode::Inference) {
  ir::Graph graph;
  Tracer tracer(graph, mode);
  std::vector<Tensor> tensors;
  ops::TensorMap feeds;
  for (const HostTensor& input : inputs) {
    const std::string name = "in" + std::to_string(tensors.size());
    tensors.push_back(tracer.input(name, input.type()));
    feeds.emplace(name, input);
  }
  graph.addOutput("y", f(tensors).value());
  return ops::evaluate(graph, feeds, state).at("y");
}

template <class F>
HostTensor evaluated(const std::vector<HostTensor>& inputs, F f, const Module& root) {
  ops::TensorMap state = stateOf(root);
  return evaluated(inputs, f, state);
}

}  // namespace sluice::nn
