#include "sluice/transforms/bodies.h"

#include <memory>
#include <vector>

#include "sluice/ops/control_ops.h"
#include "sluice/transforms/decompose.h"

namespace sluice::transforms {
namespace {

/// Runs the pass on a copy of every body of the op; a body that changed takes the old one's place.
bool inBodiesOf(ir::Graph& graph, ir::OpId id, FunctionRef<bool(ir::Graph&)> pass) {
  std::vector<ir::NamedAttr> changed;
  for (const ir::NamedAttr& attr : graph.op(id).attrs) {
    if (const auto* body = std::get_if<ir::GraphRef>(&attr.value)) {
      ir::Graph copy = **body;
      if (inAllGraphs(copy, pass)) {
        changed.emplace_back(attr.name, std::make_shared<const ir::Graph>(std::move(copy)));
      }
    }
  }
  for (ir::NamedAttr& attr : changed) {
    graph.setAttr(id, std::move(attr));
  }
  return !changed.empty();
}

}  // namespace

bool inAllGraphs(ir::Graph& graph, FunctionRef<bool(ir::Graph&)> pass) {
  bool changed = false;
  const std::vector<ir::OpId> before(graph.order().begin(), graph.order().end());
  for (const ir::OpId id : before) {
    if (ops::isControlFlow(*graph.op(id).def)) {
      changed = inBodiesOf(graph, id, pass) || changed;
    }
  }
  return pass(graph) || changed;
}

bool decomposeComposites(ir::Graph& graph) {
  return inAllGraphs(graph, [](ir::Graph& each) {
    return decompose(each, [](const ir::Op& op) { return ops::isControlFlow(*op.def); });
  });
}

}  // namespace sluice::transforms
