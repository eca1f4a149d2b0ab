// Ops at the end of a graph, on their way into a body. Private to the tracing of control flow.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::ops {

class CutOut {
 public:
  static constexpr std::size_t kEnd = ~std::size_t{0};

  /// The ops at the positions from `first` up to `end`. Reads of variables and constants among them
  /// stay in the graph, where others may use them, too.
  CutOut(const ir::Graph& graph, std::size_t first, std::size_t end = kEnd);

  /// Whether all of them may be in one body: on one place, and allowed there.
  bool fits() const;
  /// The place that they have in common; none if there is no op.
  std::optional<ir::Placement> place() const { return place_; }
  std::span<const ir::OpId> ops() const { return ops_; }

  /// Adds the values from outside that the ops or these results read, each once and in order.
  /// Single numbers that are constant are not among them: a body has its own.
  void addCaptured(std::span<const ir::Value> results, std::vector<ir::Value>& captured) const;

  /// A body whose inputs stand for these values.
  ir::GraphRef body(std::span<const ir::Value> inputs, std::span<const ir::Value> results) const;

 private:
  bool isCopied(ir::Value value) const;

  const ir::Graph& graph_;
  std::vector<ir::OpId> ops_;
  std::unordered_set<ir::OpId> members_;
  std::optional<ir::Placement> place_;
  bool onePlace_ = true;
};

}  // namespace sluice::ops
