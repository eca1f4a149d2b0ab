// Gives ops of a graph other operands. Private to the transforms.
#pragma once

#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Inserts a copy of the op with other operands before `position`.
inline ir::OpId copyBefore(ir::Graph& graph,
                           ir::OpId position,
                           const ir::Op& op,
                           std::vector<ir::Value> inputs) {
  return graph.insertBefore(position,
                            {.def = *op.def,
                             .inputs = std::move(inputs),
                             .attrs = op.attrs,
                             .name = op.name,
                             .place = op.place});
}

/// Replaces the op by a copy with other operands.
inline void replaceOperands(ir::Graph& graph, const ir::Op& op, std::vector<ir::Value> inputs) {
  const ir::Op& made = graph.op(copyBefore(graph, op.id, op, std::move(inputs)));
  std::unordered_map<ir::Value, ir::Value> results;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    results.emplace(op.out(i), made.out(i));
  }
  graph.replaceUses(results);
  graph.remove(std::array{op.id});
}

}  // namespace sluice::transforms
