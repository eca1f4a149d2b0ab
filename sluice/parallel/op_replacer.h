// Gives ops of a graph other operands while a new order is written: a copy with the new operands
// replaces the op. Private to the parallel module.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

class OpReplacer {
 public:
  explicit OpReplacer(ir::Graph& graph) : graph_(graph) {}

  /// Keeps an op of the graph; it comes after all ops kept or made so far.
  void keep(ir::OpId id) { order_.push_back(id); }

  /// Makes a new op; it comes after all ops kept or made so far.
  ir::OpId add(ir::NewOp op) {
    order_.push_back(graph_.append(std::move(op)));
    return order_.back();
  }

  /// Makes a copy of `op` with another name, placement and operands.
  ir::OpId copy(const ir::Op& op,
                std::vector<ir::Value> inputs,
                std::string name,
                ir::Placement place) {
    return add({.def = *op.def,
                .inputs = std::move(inputs),
                .attrs = op.attrs,
                .name = std::move(name),
                .place = place,
                .types = op.outputs});
  }

  /// Keeps the op with `inputs` as its operands.
  void replace(const ir::Op& op, std::vector<ir::Value> inputs) {
    if (inputs == op.inputs) {
      keep(op.id);
      return;
    }
    const ir::OpId made = copy(op, std::move(inputs), op.name, op.place);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      replacements_.emplace(op.out(i), ir::Value{made, static_cast<std::uint16_t>(i)});
    }
    replaced_.push_back(op.id);
  }

  /// Redirects all readers and gives the graph its new order.
  void finish() {
    graph_.replaceUses(replacements_);
    graph_.remove(replaced_);
    graph_.reorder(std::move(order_));
  }

 private:
  ir::Graph& graph_;
  std::vector<ir::OpId> order_;
  std::unordered_map<ir::Value, ir::Value> replacements_;
  std::vector<ir::OpId> replaced_;
};

}  // namespace sluice::parallel
