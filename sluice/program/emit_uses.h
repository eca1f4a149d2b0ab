// Which ops read the values of a graph and which ops assign its variables, by position in the order
// in which ops are emitted. Private to the program module.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::program {

class EmitUses {
 public:
  /// Both arguments must outlive this object.
  EmitUses(const ir::Graph& graph, const std::vector<ir::OpId>& order);

  /// Whether an op on another device than the one that makes the value reads it.
  bool isReadElsewhere(ir::Value value) const { return readElsewhere_.contains(value); }
  /// Whether the variable is assigned after its read at `position` and before the last use of the
  /// value that was read.
  bool isOverwritten(const ir::Op& read, std::size_t position) const;

  bool isAssigned(std::string_view variable) const { return assigns_.contains(variable); }
  /// Whether a pass over the micro-batches assigns it, not only the update.
  bool isAssignedInLoop(std::string_view variable) const;
  /// Whether it is an accumulator that starts again in every round. False for a combined velocity,
  /// which is an accumulator that keeps its sum from round to round.
  bool beginsAnew(const ir::Variable& variable) const;

 private:
  /// The positions of the ops that assign a variable.
  const std::vector<std::size_t>& assignsOf(std::string_view variable) const;

  const ir::Graph& graph_;
  const std::vector<ir::OpId>& order_;
  std::unordered_map<ir::Value, std::size_t> lastUse_;
  std::unordered_set<ir::Value> readElsewhere_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> assigns_;
};

}  // namespace sluice::program
