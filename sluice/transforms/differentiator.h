// The walk of autodiff, for a graph or for the body of a control-flow op. Private to the
// transforms.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// A loop's gradient, as far as the body decides it.
struct LoopGradient {
  ir::GraphRef body;
  /// The forward body with the values that the gradient needs as more rows; null if it needs none.
  ir::GraphRef forward;
  std::vector<ir::Value> saved;           ///< these values
  std::vector<std::size_t> carriedGrads;  ///< carried values whose gradients are carried back
  std::vector<std::size_t> sums;          ///< fixed inputs whose gradients are summed
  std::vector<std::size_t> rowGrads;      ///< outputs whose gradients are read, one row each time
  std::vector<std::size_t> scannedReads;  ///< scanned inputs that are read
  std::vector<std::size_t> fixedReads;    ///< fixed inputs that are read
  std::vector<std::size_t> rows;          ///< scanned inputs that get a gradient
  std::vector<bool> reachesStart;         ///< by carriedGrads: the initial value gets a gradient
};

/// Walks the ops of a graph backwards and adds up for each value the gradients of its uses, the
/// last use first (R7). A sum is made at once, where the use is, so that only one gradient of a
/// value is kept however many uses it has.
class Differentiator {
 public:
  /// Gradients are wanted for these values and all floats that depend on them.
  Differentiator(ir::Graph& graph, std::span<const ir::Value> wrt);

  bool needs(ir::Value value) const { return needed_.contains(value); }
  /// Adds the gradient of one more use of a value. Before run(), these are uses after the graph's
  /// end, the last one first.
  void contribute(ir::Value value, ir::Value gradient);
  void run();
  /// The sum so far; no value if there is none.
  ir::Value gradientOf(ir::Value value) const;

  ir::GraphBuilder& builder() { return builder_; }

 private:
  void differentiateOp(ir::OpId id);
  void differentiateByRule(const ir::Op& op, std::span<const ir::Value> outputGrads);
  void differentiateLoop(const ir::Op& op, std::span<const ir::Value> outputGrads);
  void takeGradients(const LoopGradient& gradient,
                     std::span<const ir::Value> operands,
                     std::span<const ir::Value> results);
  ir::Value orNone(ir::Value gradient, ir::Value like);
  void differentiateBranch(const ir::Op& op, std::span<const ir::Value> outputGrads);

  ir::Graph& graph_;
  ir::GraphBuilder builder_;
  std::vector<ir::OpId> forward_;
  std::unordered_set<ir::Value> needed_;
  std::unordered_map<ir::Value, ir::Value> sums_;
};

/// What stands for a gradient that does not exist yet in a sum: -0, which changes no bit of what is
/// added to it.
ir::Value noGradient(ir::GraphBuilder& b, const TensorType& type);

/// Differentiates the body of a loop: `needed` says which operands want a gradient, `given` which
/// results have one.
LoopGradient differentiateBody(const ir::Attrs& loop,
                               const std::vector<bool>& needed,
                               const std::vector<bool>& given);

}  // namespace sluice::transforms
