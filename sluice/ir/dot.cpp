#include "sluice/ir/dot.h"

#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sluice/ir/printer.h"

namespace sluice::ir {
namespace {

/// Fill colours by pass: light, so that text is readable.
const char* colourOf(Pass pass) {
  switch (pass) {
    case Pass::Forward:
      return "#dbe9ff";
    case Pass::Backward:
      return "#ffe3d1";
    case Pass::Update:
      break;
  }
  return "#dff2d8";
}

std::string boxOf(const Op& op) {
  std::string label(op.def->name);
  if (!op.name.empty() && op.name != op.def->name) {
    label += "\n" + op.name;
  }
  for (const TensorType& type : op.outputs) {
    label += "\n" + type.str();
  }
  return fmt::format(
      "op{} [label={}, fillcolor=\"{}\"];\n", op.id.index(), quote(label), colourOf(op.place.pass));
}

}  // namespace

std::string printDot(const Graph& graph) {
  std::string text = fmt::format(
      "digraph {} {{\n  node [shape=box, style=filled, fontname=sans];\n", quote(graph.name()));
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<const Op*>> places;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    places[{op.place.device, op.place.stage}].push_back(&op);
  }
  for (const auto& [place, ops] : places) {
    const auto& [device, stage] = place;
    const bool apart = device >= 0 || stage >= 0;
    if (apart) {
      text += fmt::format("  subgraph \"cluster_{}_{}\" {{\n    label=\"{}{}\";\n",
                          device,
                          stage,
                          device >= 0 ? fmt::format("device {}", device) : "",
                          stage >= 0 ? fmt::format(" stage {}", stage) : "");
    }
    for (const Op* op : ops) {
      text += (apart ? "    " : "  ") + boxOf(*op);
    }
    text += apart ? "  }\n" : "";
  }
  for (const OpId id : graph.order()) {
    for (const Value& input : graph.op(id).inputs) {
      text += fmt::format("  op{} -> op{};\n", input.op.index(), id.index());
    }
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const Output& output = graph.outputs()[i];
    text += fmt::format("  out{0} [label={1}, shape=oval, fillcolor=white];\n  op{2} -> out{0};\n",
                        i,
                        quote(output.name),
                        output.value.op.index());
  }
  return text + "}\n";
}

}  // namespace sluice::ir
