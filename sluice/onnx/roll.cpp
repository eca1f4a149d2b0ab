#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/onnx/unroll.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/op_list.h"

namespace sluice::onnx {
namespace {

using Values = std::vector<Value>;

/// Inputs of the graph that stand for values, so that nodes do not take these for constants.
class Unknown {
 public:
  explicit Unknown(ir::GraphBuilder& b) : b_(b) {}

  Values of(const Values& values) {
    Values made;
    for (const Value value : values) {
      made.push_back(b_.input(fmt::format("loop/{}", b_.graph().numIds()), b_.type(value)));
      real_.emplace(made.back(), value);
    }
    return made;
  }

  /// Puts the values themselves in their places.
  void resolve() {
    b_.graph().replaceUses(real_);
    std::vector<ir::OpId> gone;
    for (const auto& [unknown, value] : real_) {
      gone.push_back(unknown.op);
    }
    b_.graph().remove(gone);
  }

 private:
  ir::GraphBuilder& b_;
  std::unordered_map<Value, Value> real_;
};

/// Removes what was appended since the graph had so many ids, but for leaves and ops of the
/// importer itself, which it remembers, and what those read.
void removeSince(ir::Graph& graph, std::size_t firstId) {
  std::unordered_set<ir::OpId> read;
  std::vector<ir::OpId> gone;
  for (std::size_t i = graph.numOps(); i-- > 0;) {
    const ir::Op& op = graph.op(graph.order()[i]);
    const bool isNew = op.id.index() >= firstId && !op.is(ir::kInput) && !op.is(ir::kVariable) &&
                       !op.is(ir::kConstant) && ops::opSet().find(op.def->name) == op.def;
    if (isNew && !read.contains(op.id)) {
      gone.push_back(op.id);
      continue;
    }
    for (const Value v : op.inputs) {
      read.insert(v.op);
    }
  }
  graph.remove(gone);
}

/// Thrown through the tracing of a loop that has to be unrolled.
struct MustUnroll {};

}  // namespace

std::optional<Values> rollLoop(
    Node& node,
    ops::LoopRequest request,
    FunctionRef<std::optional<ops::Iteration>(std::span<const Value>, std::span<const Value>)>
        build) {
  if (request.count < std::max<std::int64_t>(1, node.rollFrom())) {
    return std::nullopt;
  }
  requireRolledRuns(node, request.count);
  ir::Graph& graph = node.b.graph();
  const std::size_t firstId = graph.numIds();
  Unknown unknown(node.b);
  request.carried = unknown.of(request.carried);
  request.scanned = unknown.of(request.scanned);
  request.rollFrom = 1;
  std::size_t runs = 0;
  const auto once = [&](std::span<const Value> carried, std::span<const Value> rows) {
    std::optional<ops::Iteration> made;
    if (runs++ == 0) {
      made = build(carried, rows);
    }
    for (std::size_t i = 0; made && i < carried.size(); ++i) {
      if (graph.type(made->carried[i]) != graph.type(carried[i])) {
        made.reset();
      }
    }
    if (!made) {  // also in a second run: the first one could not be rolled
      throw MustUnroll();
    }
    return std::move(*made);
  };
  std::optional<Values> results;
  try {
    results = ops::traceLoop(node.b, request, once);
  } catch (const MustUnroll&) {
  } catch (const Error&) {  // the unrolled form says it again if it has nothing to do with the loop
  }
  if (!results) {
    removeSince(graph, firstId);
  }
  unknown.resolve();
  return results;
}

}  // namespace sluice::onnx
