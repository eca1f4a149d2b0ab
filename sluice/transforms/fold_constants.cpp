#include "sluice/transforms/fold_constants.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "sluice/ops/interpreter.h"
#include "sluice/transforms/purity.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;
using Known = std::unordered_map<Value, HostTensor>;

bool foldable(const Op& op, const Known& known) {
  std::size_t bytes = 0;
  for (const TensorType& type : op.outputs) {
    bytes += type.bytes();
  }
  std::size_t operandBytes = 0;
  for (const Value v : op.inputs) {
    operandBytes += known.contains(v) ? known.at(v).byteCount() : 0;
  }
  return isPure(op) && !op.def->traits.random && !op.inputs.empty() &&
         bytes <= std::max(kMaxGrownBytes, std::min(kMaxFoldedBytes, operandBytes)) &&
         std::ranges::all_of(op.inputs, [&](Value v) { return known.contains(v); });
}

/// The values of all constants and of what depends on nothing else; folded ops are listed.
Known evaluateConstants(const ir::Graph& graph, std::vector<OpId>& folded) {
  Known known;
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    if (op.is(ir::kConstant)) {
      known.emplace(op.out(), op.attrs.tensor("value"));
    } else if (foldable(op, known)) {
      std::vector<HostTensor> operands;
      for (const Value v : op.inputs) {
        operands.push_back(known.at(v));
      }
      const std::vector<HostTensor> results = ops::evaluate(*op.def, op.attrs, operands);
      for (std::size_t i = 0; i < results.size(); ++i) {
        known.emplace(op.out(i), results[i]);
      }
      folded.push_back(id);
    }
  }
  return known;
}

}  // namespace

bool foldConstants(ir::Graph& graph) {
  std::vector<OpId> folded;
  const Known known = evaluateConstants(graph, folded);
  const std::unordered_set<OpId> gone(folded.begin(), folded.end());
  const ir::Users users = graph.users();
  const std::vector<OpId> before(graph.order().begin(), graph.order().end());
  std::unordered_map<Value, Value> replacements;
  std::vector<OpId> order;
  for (const OpId id : before) {
    order.push_back(id);
    if (!gone.contains(id)) {
      continue;
    }
    const Op& op = graph.op(id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const Value value = op.out(i);
      const bool read = std::ranges::any_of(
          users.of(value), [&](const ir::Use& use) { return !gone.contains(use.op); });
      if (read || users.isOutput(value)) {
        order.push_back(graph.append({.def = ir::kConstant,
                                      .attrs = {{"value", known.at(value)}},
                                      .name = op.name,
                                      .place = op.place}));
        replacements.emplace(value, Value{order.back(), 0});
      }
    }
  }
  graph.reorder(std::move(order));
  graph.replaceUses(replacements);
  graph.remove(folded);
  return !folded.empty();
}

}  // namespace sluice::transforms
