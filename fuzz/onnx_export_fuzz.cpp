// Any bytes as an ONNX model: what can be imported and exported exactly imports as the same graph
// again, and exports as the same bytes. The usual file has the same inputs and outputs.
#include <map>

#include "fuzz/onnx_small.h"
#include "fuzz/target.h"
#include "sluice/onnx/files.h"

using namespace sluice;

namespace {

onnx::ImportedModel import(std::string_view bytes) {
  return onnx::importModelBytes(std::as_bytes(std::span(bytes)));
}

std::string exportExactly(const ir::Graph& graph) {
  return onnx::exportModelBytes(graph, {.exact = onnx::Exact::Yes});
}

/// The names and types of inputs and outputs.
std::map<std::string, TensorType> interfaceOf(const ir::Graph& graph) {
  std::map<std::string, TensorType> types;
  for (const ir::OpId id : graph.inputs()) {
    types.emplace("in " + graph.op(id).name, graph.op(id).outputs[0]);
  }
  for (const ir::Output& output : graph.outputs()) {
    types.emplace("out " + output.name, graph.type(output.value));
  }
  return types;
}

/// What a file keeps of a graph.
ir::Graph withoutUnreadInputs(ir::Graph graph) {
  const ir::Users users = graph.users();
  std::vector<ir::OpId> unread = graph.inputs();
  std::erase_if(unread, [&](ir::OpId id) {
    const ir::Value value = graph.op(id).out();
    return !users.of(value).empty() || users.isOutput(value);
  });
  graph.remove(unread);
  return graph;
}

}  // namespace

SLUICE_FUZZ_TARGET(onnx_export) {
  onnx::ImportedModel model;
  std::string bytes;
  std::string usual;
  const bool exported = fuzz::accepts([&] {
    model = import(fuzz::textOf(data, size));
    if (fuzz::isSmall(model.graph)) {
      bytes = exportExactly(model.graph);
      usual = onnx::exportModelBytes(model.graph);
    }
  });
  if (!exported || bytes.empty()) {
    return;
  }
  const ir::Graph kept = withoutUnreadInputs(std::move(model.graph));
  const onnx::ImportedModel again = import(bytes);  // an error here is a finding
  fuzz::require(structurallyEqual(again.graph, kept), "another graph after a round trip");
  fuzz::require(exportExactly(again.graph) == bytes, "other bytes after a round trip");
  // Parts need not read an operand that decides about a shape alone.
  const auto wanted = interfaceOf(kept);
  for (const auto& [name, type] : interfaceOf(import(usual).graph)) {
    const auto found = wanted.find(name);
    fuzz::require(found != wanted.end() && found->second == type,
                  "other inputs or outputs in the usual file");
  }
}
