#include "sluice/ops/trace_control.h"

#include <algorithm>
#include <optional>

#include "sluice/base/error.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/cut_out.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

using ir::OpId;

void removeAll(ir::Graph& graph, std::span<const OpId> first, std::span<const OpId> second) {
  std::vector<OpId> gone(first.begin(), first.end());
  gone.insert(gone.end(), second.begin(), second.end());
  graph.remove(gone);
}

/// A loop while it is traced.
class LoopTrace {
 public:
  LoopTrace(GraphBuilder& b, const LoopRequest& request, BuildIteration build)
      : b_(b), request_(request), build_(build) {}

  std::vector<Value> run() {
    const std::size_t start = graph().numOps();
    for (const Value v : request_.carried) {
      carried_.push_back(identity(b_, v));
    }
    for (const Value x : request_.scanned) {
      slices_.push_back(rowsOf(x));
    }
    const std::vector<OpId> stand(graph().order().begin() + static_cast<std::ptrdiff_t>(start),
                                  graph().order().end());
    first_ = graph().numOps();
    const std::vector<Value> inputs = inputsOf(0);
    const Iteration iteration = runBody(inputs);
    if (request_.count >= request_.rollFrom && iteration.mayBeRolled) {
      if (std::optional<std::vector<Value>> results = roll(iteration, inputs, stand)) {
        return std::move(*results);
      }
    }
    return unroll(iteration, inputs);
  }

 private:
  ir::Graph& graph() { return b_.graph(); }

  /// The rows of a scanned value; only the first one where there are too many to unroll.
  std::vector<Value> rowsOf(Value x) {
    const Shape row = rowType(b_.type(x)).shape;
    if (request_.count > kMaxUnrolled) {
      std::vector<std::int64_t> ends = b_.shape(x).dims();
      ends[0] = 1;
      std::vector<std::int64_t> starts(ends.size(), 0);
      return {reshape(b_, slice(b_, x, std::move(starts), std::move(ends)), row)};
    }
    std::vector<Value> rows =
        split(b_, x, 0, std::vector<std::int64_t>(static_cast<std::size_t>(request_.count), 1));
    if (request_.reverse) {
      std::ranges::reverse(rows);
    }
    for (Value& each : rows) {
      each = reshape(b_, each, row);
    }
    return rows;
  }

  /// Carried values, then rows.
  std::vector<Value> inputsOf(std::size_t iteration) const {
    std::vector<Value> inputs = carried_;
    for (const std::vector<Value>& rows : slices_) {
      inputs.push_back(rows[iteration]);
    }
    return inputs;
  }

  Iteration runBody(std::span<const Value> inputs) {
    Iteration made = build_(inputs.first(carried_.size()), inputs.subspan(carried_.size()));
    SLUICE_CHECK(made.carried.size() == carried_.size(),
                 "a loop carries {} values, its body returned {}",
                 carried_.size(),
                 made.carried.size());
    return made;
  }

  /// The loop op in place of the traced iteration and of what stood for its inputs.
  std::optional<std::vector<Value>> roll(const Iteration& iteration,
                                         const std::vector<Value>& inputs,
                                         std::span<const OpId> stand) {
    const CutOut cut(graph(), first_);
    if (!cut.fits()) {
      return std::nullopt;
    }
    std::vector<Value> results = iteration.carried;
    results.insert(results.end(), iteration.rows.begin(), iteration.rows.end());
    if (results.empty()) {
      return std::nullopt;
    }
    std::vector<Value> all = inputs;
    cut.addCaptured(results, all);
    LoopParts parts{.body = cut.body(all, results),
                    .count = request_.count,
                    .carried = request_.carried,
                    .scanned = request_.scanned,
                    .fixed = {all.begin() + static_cast<std::ptrdiff_t>(inputs.size()), all.end()},
                    .reverse = request_.reverse};
    const ir::Placement place = cut.place().value_or(b_.place);
    removeAll(graph(), cut.ops(), stand);
    const ir::AnnotationScope scope(b_);
    b_.place = place;
    return loop(b_, parts);
  }

  /// Goes on where the first iteration ended.
  std::vector<Value> unroll(Iteration iteration, std::vector<Value> inputs) {
    if (request_.count > kMaxUnrolled) {
      raise<Unsupported>(
          "a loop of {} iterations has to be unrolled, because its body has an effect, draws "
          "random "
          "numbers or lies in several blocks; {} iterations at most",
          request_.count,
          kMaxUnrolled);
    }
    rows_.resize(iteration.rows.size());
    for (std::int64_t i = 0; i < request_.count; ++i) {
      if (i > 0) {
        inputs = inputsOf(static_cast<std::size_t>(i));
        first_ = graph().numOps();
        iteration = runBody(inputs);
      }
      endIteration(iteration, inputs);
    }
    std::vector<Value> results = carried_;
    for (std::vector<Value>& rows : rows_) {
      if (request_.reverse) {
        std::ranges::reverse(rows);
      }
      results.push_back(concat(b_, std::move(rows), 0));
    }
    return results;
  }

  /// Whether the loop op would pass a carried result through an identity (loop.cpp).
  bool isCopied(const Iteration& iteration, std::span<const Value> inputs, std::size_t i) {
    const Value value = iteration.carried[i];
    const auto before = std::span<const Value>(iteration.carried).first(i);
    const bool again = std::ranges::find(before, value) != before.end();
    const bool own = std::ranges::find(inputs, value) != inputs.end();
    return again || (!own && !isMadeHere(value));
  }

  bool isMadeHere(Value value) {
    const auto made = graph().order().subspan(first_);
    return std::ranges::find(made, value.op) != made.end();
  }

  void endIteration(const Iteration& iteration, std::span<const Value> inputs) {
    std::vector<Value> next;
    for (std::size_t i = 0; i < iteration.carried.size(); ++i) {
      next.push_back(isCopied(iteration, inputs, i) ? identity(b_, iteration.carried[i])
                                                    : iteration.carried[i]);
    }
    for (std::size_t i = 0; i < iteration.rows.size(); ++i) {
      const Value row = iteration.rows[i];
      rows_[i].push_back(reshape(b_, row, rowsType(1, b_.type(row)).shape));
    }
    carried_ = std::move(next);
  }

  GraphBuilder& b_;
  const LoopRequest& request_;
  BuildIteration build_;
  std::vector<Value> carried_;
  std::vector<std::vector<Value>> slices_;  // by scanned value, in the order of iterations
  std::vector<std::vector<Value>> rows_;    // by result, in the order of iterations
  std::size_t first_ = 0;                   // position of the iteration's first op
};

}  // namespace

std::vector<Value> traceLoop(GraphBuilder& b, const LoopRequest& request, BuildIteration build) {
  SLUICE_CHECK(request.count > 0, "a loop of {} iterations is traced", request.count);
  return LoopTrace(b, request, build).run();
}

std::optional<std::vector<Value>> cutBranches(GraphBuilder& b,
                                              Value condition,
                                              const TracedBranch& yes,
                                              const TracedBranch& no) {
  ir::Graph& graph = b.graph();
  const CutOut both(graph, yes.first);
  if (yes.results.empty() || !both.fits()) {
    return std::nullopt;
  }
  const CutOut thenOps(graph, yes.first, yes.end);
  const CutOut elseOps(graph, no.first, no.end);
  std::vector<Value> operands;
  thenOps.addCaptured(yes.results, operands);
  elseOps.addCaptured(no.results, operands);
  const ir::GraphRef thenBody = thenOps.body(operands, yes.results);
  const ir::GraphRef elseBody = elseOps.body(operands, no.results);
  const ir::Placement place = both.place().value_or(b.place);
  removeAll(graph, both.ops(), {});
  const ir::AnnotationScope scope(b);
  b.place = place;
  return branch(b, condition, operands, thenBody, elseBody);
}

}  // namespace sluice::ops
