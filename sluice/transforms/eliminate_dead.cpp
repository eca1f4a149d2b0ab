#include "sluice/transforms/eliminate_dead.h"

#include "sluice/transforms/purity.h"

namespace sluice::transforms {

bool eliminateDead(ir::Graph& graph) {
  ById<ir::OpId, bool> live(graph.numIds(), false);
  for (const ir::Output& output : graph.outputs()) {
    live[output.value.op] = true;
  }
  std::vector<ir::OpId> dead;
  // Readers come after what they read, so one walk from the end sees them first.
  for (std::size_t i = graph.numOps(); i-- > 0;) {
    const ir::Op& op = graph.op(graph.order()[i]);
    if (mayDrop(op) && !live[op.id]) {
      dead.push_back(op.id);
      continue;
    }
    for (const ir::Value v : op.inputs) {
      live[v.op] = true;
    }
  }
  graph.remove(dead);
  return !dead.empty();
}

}  // namespace sluice::transforms
