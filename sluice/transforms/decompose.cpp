#include "sluice/transforms/decompose.h"

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

namespace sluice::transforms {
namespace {

using ir::OpId;
using ir::Value;

/// Composites of composites; more is an op that decomposes into itself.
constexpr int kMaxRounds = 32;

/// Appends the parts of an op, where and under the name the op has; none if it has none.
std::vector<Value> appendParts(ir::GraphBuilder& builder, const ir::Op& op, PartsOf partsOf) {
  builder.place = op.place;
  builder.scope = op.name + "/";
  std::vector<Value> results = partsOf(builder, op);
  SLUICE_CHECK(results.empty() || results.size() == op.outputs.size(),
               "{} was decomposed into {} results, expected {}",
               op.def->name,
               results.size(),
               op.outputs.size());
  return results;
}

}  // namespace

bool replaceByParts(ir::Graph& graph, PartsOf partsOf) {
  const std::vector<OpId> before(graph.order().begin(), graph.order().end());
  std::vector<OpId> order;
  std::vector<OpId> gone;
  std::unordered_map<Value, Value> replacements;
  ir::GraphBuilder builder(graph);
  for (const OpId id : before) {
    const ir::Op& op = graph.op(id);
    const std::size_t first = graph.numOps();
    const std::vector<Value> results = appendParts(builder, op, partsOf);
    if (!results.empty()) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        replacements.emplace(op.out(i), results[i]);
      }
      const auto parts = graph.order().subspan(first);
      order.insert(order.end(), parts.begin(), parts.end());
      gone.push_back(id);
    }
    order.push_back(id);
  }
  if (gone.empty()) {
    return false;
  }
  graph.reorder(std::move(order));
  graph.replaceUses(replacements);
  graph.remove(gone);
  return true;
}

bool decompose(ir::Graph& graph, FunctionRef<bool(const ir::Op&)> keep) {
  const auto partsOf = [&](ir::GraphBuilder& builder, const ir::Op& op) -> std::vector<Value> {
    if (op.def->decompose == nullptr || keep(op)) {
      return {};
    }
    const std::vector<TensorType> types = graph.inputTypes(op);
    return op.def->decompose(builder, ir::view(op, types), op.inputs);
  };
  int rounds = 0;
  while (replaceByParts(graph, partsOf)) {
    SLUICE_CHECK(
        ++rounds <= kMaxRounds, "an op of graph '{}' decomposes into itself", graph.name());
  }
  return rounds > 0;
}

}  // namespace sluice::transforms
