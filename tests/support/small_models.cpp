#include "tests/support/small_models.h"

#include <array>

#include <fmt/format.h>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/random_tensor.h"
#include "tests/support/tensor_types.h"

namespace sluice::testing {
namespace {

using ir::GraphBuilder;
using ir::Value;

struct Layer {
  Value w;
  Value bias;
  Value y;
};

Layer addLayer(GraphBuilder& b, std::int64_t rows) {
  ir::Graph& graph = b.graph();
  graph.addVariable(
      {.name = "w", .type = f32({6, 3}), .initializer = ir::Initializer::uniform(-1, 1)});
  graph.addVariable(
      {.name = "bias", .type = f32({3}), .initializer = ir::Initializer::constant(0.25)});
  const Value x = b.input("x", f32({rows, 6}));
  const Value w = b.variable("w");
  const Value bias = b.variable("bias");
  const Value shift = b.constant(HostTensor::of<float>({3}, {0.5F, -0.5F, 0.125F}));
  const Value sum = ops::add(b, ops::matmul(b, x, w), ops::add(b, bias, shift));
  return {w, bias, ops::tanh(b, sum)};
}

void addUpdate(GraphBuilder& b, const std::string& weight) {
  const Value rate = b.scalar(DType::F32, 0.1);
  const Value keep = b.scalar(DType::F32, 0.9);
  const Value momentum =
      ops::add(b, ops::mul(b, b.variable("m." + weight), keep), b.variable("g." + weight));
  b.assign("m." + weight, momentum);
  b.assign(weight, ops::sub(b, b.variable(weight), ops::mul(b, momentum, rate)));
}

/// The graph without the ops that `drop` picks, and without outputs that they make.
template <class F>
ir::Graph without(ir::Graph graph, const F& drop) {
  std::vector<ir::OpId> dropped;
  for (const ir::OpId id : graph.order()) {
    if (drop(graph.op(id))) {
      dropped.push_back(id);
    }
  }
  std::vector<ir::Output> outputs;
  for (const ir::Output& output : graph.outputs()) {
    if (!drop(graph.op(output.value.op))) {
      outputs.push_back(output);
    }
  }
  graph.setOutputs(std::move(outputs));
  graph.remove(dropped);
  return graph;
}

}  // namespace

ir::Graph inferenceModel(std::int64_t rows) {
  ir::Graph graph("inference");
  GraphBuilder b(graph);
  graph.addOutput("y", addLayer(b, rows).y);
  return graph;
}

ir::Graph trainingModel(std::string_view mode, std::int64_t rows) {
  ir::Graph graph("training");
  GraphBuilder b(graph);
  const Layer layer = addLayer(b, rows);
  const Value target = b.input("target", f32({rows, 3}));
  const Value loss = ops::reduceMean(b, ops::square(b, ops::sub(b, layer.y, target)), {});
  const std::array<Value, 2> wrt = {layer.w, layer.bias};
  const std::vector<Value> grads = transforms::differentiate(graph, loss, wrt);
  const std::array<std::string, 2> weights = {"w", "bias"};
  b.place.pass = ir::Pass::Backward;
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorType type = graph.type(wrt[i]);
    graph.addVariable(
        {.name = "g." + weights[i], .type = type, .role = ir::VariableRole::Accumulator});
    graph.addVariable(
        {.name = "m." + weights[i], .type = type, .role = ir::VariableRole::OptimizerState});
    b.assign("g." + weights[i], grads[i], mode);
  }
  b.place.pass = ir::Pass::Update;
  addUpdate(b, "w");
  addUpdate(b, "bias");
  graph.addOutput("loss", loss);
  graph.addOutput("y", layer.y);
  return graph;
}

ops::TensorMap randomInputs(const ir::Graph& graph, std::uint64_t seed, std::int64_t index) {
  ops::TensorMap inputs;
  std::uint64_t salt = 0;
  for (const ir::OpId id : graph.inputs()) {
    const ir::Op& op = graph.op(id);
    const std::uint64_t key = seed * 1000003 + static_cast<std::uint64_t>(index) * 101 + salt++;
    inputs.emplace(op.name, randomTensor(key, op.outputs[0], -1.0, 1.0));
  }
  return inputs;
}

RoundReference::RoundReference(const ir::Graph& graph, std::uint64_t seed)
    : loop_(without(graph, [](const ir::Op& op) { return op.place.pass == ir::Pass::Update; })),
      update_(without(graph, [](const ir::Op& op) {
        return op.place.pass != ir::Pass::Update && !op.is(ir::kVariable) && !op.is(ir::kConstant);
      })) {
  for (const ir::Variable& variable : graph.variables()) {
    variables.emplace(variable.name, ir::initialValue(variable, seed));
  }
}

std::vector<ops::TensorMap> RoundReference::round(std::span<const ops::TensorMap> inputs,
                                                  ir::RunInfo first) {
  std::vector<ops::TensorMap> outputs;
  ir::RunInfo info = first;
  for (std::size_t m = 0; m < inputs.size(); ++m) {
    info.microBatch = first.microBatch + static_cast<std::int64_t>(m);
    info.microBatchInRound = static_cast<std::int64_t>(m);
    outputs.push_back(ops::evaluate(loop_, inputs[m], variables, info));
  }
  const ops::TensorMap made = ops::evaluate(update_, {}, variables, info);
  for (ops::TensorMap& map : outputs) {
    map.insert(made.begin(), made.end());
  }
  return outputs;
}

}  // namespace sluice::testing
