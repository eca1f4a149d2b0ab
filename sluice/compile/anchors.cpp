#include "sluice/compile/anchors.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::compiler {

std::vector<NamedTensor> namedTensors(const ir::Graph& graph, ir::Pass pass) {
  std::vector<NamedTensor> tensors;
  std::map<std::string, int, std::less<>> seen;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.place.pass != pass || op.is(ir::kConstant) || op.is(ir::kVariable) ||
        op.outputs.empty()) {
      continue;
    }
    const int count = ++seen[op.name];
    const std::string name = count == 1 ? op.name : fmt::format("{}#{}", op.name, count);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      tensors.push_back({i == 0 ? name : fmt::format("{}:{}", name, i), op.out(i)});
    }
  }
  return tensors;
}

void addAnchors(ir::Graph& graph,
                std::span<const NamedTensor> tensors,
                std::span<const AnchorName> anchors) {
  for (const AnchorName& anchor : anchors) {
    const auto found = std::ranges::find(tensors, anchor.longName, &NamedTensor::name);
    if (found != tensors.end()) {
      graph.addOutput("anchor/" + anchor.shortName, found->value);
    }
  }
}

void keepOutputs(ir::Graph& graph, std::size_t own, std::span<const AnchorName> anchors) {
  const std::vector<ir::Output> all(graph.outputs().begin(), graph.outputs().end());
  const auto added = all.begin() + static_cast<std::ptrdiff_t>(own);
  std::vector<ir::Output> outputs(all.begin(), added);
  for (const AnchorName& anchor : anchors) {
    const auto found = std::find_if(added, all.end(), [&](const ir::Output& output) {
      return output.name == "anchor/" + anchor.shortName;
    });
    if (found == all.end()) {
      raise<InvalidArgument>(
          "anchorTensor '{}': the model has no tensor '{}'; Model::getTensorNames() lists them",
          anchor.shortName,
          anchor.longName);
    }
    outputs.push_back(*found);
  }
  graph.setOutputs(std::move(outputs));
}

}  // namespace sluice::compiler
