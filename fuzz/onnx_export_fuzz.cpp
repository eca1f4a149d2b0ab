// Any bytes as an ONNX model: what can be imported and exported imports as the same graph again,
// and exports as the same bytes.
#include "fuzz/onnx_small.h"
#include "fuzz/target.h"
#include "sluice/onnx/export.h"
#include "sluice/onnx/import.h"

using namespace sluice;

namespace {

onnx::ImportedModel import(std::string_view bytes) {
  return onnx::importModelBytes(std::as_bytes(std::span(bytes)));
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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  onnx::ImportedModel model;
  std::string bytes;
  const bool exported = fuzz::accepts([&] {
    model = import(fuzz::textOf(data, size));
    if (fuzz::isSmall(model.graph)) {
      bytes = onnx::exportModelBytes(model.graph);
    }
  });
  if (!exported || bytes.empty()) {
    return 0;
  }
  const onnx::ImportedModel again = import(bytes);  // an error here is a finding
  fuzz::require(structurallyEqual(again.graph, withoutUnreadInputs(std::move(model.graph))),
                "another graph after a round trip");
  fuzz::require(onnx::exportModelBytes(again.graph) == bytes, "other bytes after a round trip");
  return 0;
}
