#include "sluice/transforms/number_names.h"

#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

namespace sluice::transforms {

bool numberNames(ir::Graph& graph) {
  std::set<std::string> taken;
  for (const ir::OpId id : graph.order()) {
    taken.insert(graph.op(id).name);
  }
  std::map<std::string, int> counts;
  bool changed = false;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    int& count = counts[op.name];
    if (op.is(ir::kInput) || op.is(ir::kVariable) || op.is(ir::kConstant) || count++ == 0) {
      continue;
    }
    std::string name = fmt::format("{}#{}", op.name, count);
    while (!taken.insert(name).second) {
      name = fmt::format("{}#{}", op.name, ++count);
    }
    graph.setName(id, std::move(name));
    changed = true;
  }
  return changed;
}

}  // namespace sluice::transforms
