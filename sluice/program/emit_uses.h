// Who reads the values of a graph and who assigns its variables, by position in the order in which
// the ops are emitted. Private to the program module.
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
  /// Both must outlive this.
  EmitUses(const ir::Graph& graph, const std::vector<ir::OpId>& order);

  /// Whether an op of another device than the one that makes the value reads it.
  bool isReadElsewhere(ir::Value value) const { return readElsewhere_.contains(value); }
  /// Whether the variable is assigned between its read at `position` and the last use of what was
  /// read.
  bool isOverwritten(const ir::Op& read, std::size_t position) const;

  bool isAssigned(std::string_view variable) const { return assigns_.contains(variable); }
  /// Whether a pass of the micro-batches assigns it, not only the update.
  bool isAssignedInLoop(std::string_view variable) const;
  /// Whether it is an accumulator that each round begins anew. A combined velocity is one, too, but
  /// what is added stays from round to round.
  bool beginsAnew(const ir::Variable& variable) const;

 private:
  /// The ops that assign a variable, by position.
  const std::vector<std::size_t>& assignsOf(std::string_view variable) const;

  const ir::Graph& graph_;
  const std::vector<ir::OpId>& order_;
  std::unordered_map<ir::Value, std::size_t> lastUse_;
  std::unordered_set<ir::Value> readElsewhere_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> assigns_;
};

}  // namespace sluice::program
