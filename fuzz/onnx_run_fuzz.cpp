// Any bytes as an ONNX model that is compiled and run: an error of ours, or outputs of the types
// that the graph promises.
#include "fuzz/onnx_small.h"
#include "fuzz/target.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

/// Numbers that are indices, ratios and signs at once.
NamedTensors inputsOf(const ir::Graph& graph) {
  NamedTensors inputs;
  for (const ir::OpId id : graph.inputs()) {
    const ir::Op& op = graph.op(id);
    HostTensor tensor(op.outputs[0]);
    for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
      tensor.set(i, static_cast<double>(i * 7 % 3));
    }
    inputs.insert_or_assign(op.name, std::move(tensor));
  }
  return inputs;
}

void run(onnx::ImportedModel imported) {
  const NamedTensors inputs = inputsOf(imported.graph);
  std::map<std::string, TensorType> promised;
  for (const ir::Output& output : imported.graph.outputs()) {
    promised.insert_or_assign(output.name, imported.graph.type(output.value));
  }
  Builder builder(std::move(imported));
  auto model = inferenceModel(builder, Options().randomSeed(1));
  const NamedTensors outputs = model.run(inputs);
  fuzz::require(outputs.size() == promised.size(), "not all outputs");
  for (const auto& [name, tensor] : outputs) {
    fuzz::require(promised.contains(name) && promised.at(name) == tensor.type(),
                  "an output of another type than the graph says");
  }
}

}  // namespace

SLUICE_FUZZ_TARGET(onnx_run) {
  fuzz::accepts([&] {
    onnx::ImportedModel imported = onnx::importModelBytes(std::as_bytes(std::span(data, size)));
    if (fuzz::isSmall(imported.graph)) {
      run(std::move(imported));
    }
  });
}
