#include <string_view>

#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/helpers.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/trace_control.h"

namespace sluice::nn {

static_assert(kMaxLoopRuns == ops::kMaxUnrolled && LoopOptions().rollFrom == ops::kRolledFrom);

namespace {

void requireInference(std::string_view what) {
  if (Tracer::current().training()) {
    raise<InvalidArgument>("{} can be used in inference models only, it has no gradient", what);
  }
}

/// Throws unless both are as many and of the same types.
void requireAlike(const std::vector<Tensor>& results,
                  const std::vector<Tensor>& wanted,
                  std::string_view what) {
  if (results.size() != wanted.size()) {
    raise<InvalidArgument>("{}: {} and {} tensors", what, wanted.size(), results.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].type() != wanted[i].type()) {
      raise<InvalidArgument>(
          "{}: tensor {} is {} and {}", what, i, wanted[i].type().str(), results[i].type().str());
    }
  }
}

/// Throws if an op since the graph had so many ops has an effect.
void requireNoEffect(std::size_t before) {
  const ir::Graph& graph = Tracer::current().graph();
  for (std::size_t i = before; i < graph.order().size(); ++i) {
    const ir::Op& op = graph.op(graph.order()[i]);
    if (op.def->traits.effect) {
      raise<InvalidArgument>("cond: op '{}' of a branch has an effect, which a branch cannot have",
                             op.name);
    }
  }
}

/// One iteration of a loop, under the messages of the function that loops.
ops::Iteration iterate(const ScanBody& body,
                       std::span<const ir::Value> carried,
                       std::span<const ir::Value> rows,
                       std::string_view what) {
  Tracer& tracer = Tracer::current();
  const std::size_t hints = tracer.memoryHints().size();
  const std::vector<Tensor> in = tensorsOf(tracer.builder(), {carried.begin(), carried.end()});
  const Scanned out = body(in, tensorsOf(tracer.builder(), {rows.begin(), rows.end()}));
  requireAlike(out.carried, in, what);
  return {.carried = valuesOf(out.carried),
          .rows = valuesOf(out.rows),
          .mayBeRolled = tracer.memoryHints().size() == hints && !tracer.openMultiConv()};
}

/// The common number of rows.
std::int64_t rowsOf(const std::vector<Tensor>& sequences) {
  if (sequences.empty()) {
    raise<InvalidArgument>("scan: it needs a sequence; forLoop is for loops without one");
  }
  std::int64_t count = -1;
  for (const Tensor& x : sequences) {
    const std::int64_t rows = x.shape().rank() == 0 ? 0 : x.shape()[0];
    if (rows == 0 || (count >= 0 && rows != count)) {
      raise<InvalidArgument>(
          "scan: all sequences must have the same number of rows, at least one; "
          "sequence of type {} comes after {}",
          x.type().str(),
          count < 0 ? "none" : sequences[0].type().str());
    }
    count = rows;
  }
  return count;
}

}  // namespace

std::vector<Tensor> forLoop(std::int64_t count,
                            const Body& body,
                            std::vector<Tensor> inputs,
                            const LoopOptions& options) {
  if (count < 0) {
    raise<InvalidArgument>("forLoop: a count cannot be negative, got {}", count);
  }
  if (count == 0) {
    return inputs;
  }
  const ScanBody once = [&](std::vector<Tensor> in, const std::vector<Tensor>&) {
    return Scanned{body(std::move(in))};
  };
  ir::GraphBuilder& b = Tracer::current().builder();
  const ops::LoopRequest request{
      .count = count, .carried = valuesOf(inputs), .rollFrom = options.rollFrom};
  return tensorsOf(b, ops::traceLoop(b, request, [&](auto carried, auto rows) {
                     return iterate(once, carried, rows, "forLoop: the body takes and gives");
                   }));
}

// NOLINTBEGIN(performance-unnecessary-value-param): given away, as to forLoop
Scanned scan(const ScanBody& body,
             std::vector<Tensor> carried,
             std::vector<Tensor> sequences,
             const LoopOptions& options) {
  // NOLINTEND(performance-unnecessary-value-param)
  ir::GraphBuilder& b = Tracer::current().builder();
  const ops::LoopRequest request{.count = rowsOf(sequences),
                                 .carried = valuesOf(carried),
                                 .scanned = valuesOf(sequences),
                                 .reverse = options.reverse,
                                 .rollFrom = options.rollFrom};
  const std::vector<Tensor> results =
      tensorsOf(b, ops::traceLoop(b, request, [&](auto in, auto rows) {
                  return iterate(body, in, rows, "scan: the body takes and gives");
                }));
  const auto end = results.begin() + static_cast<std::ptrdiff_t>(carried.size());
  return {{results.begin(), end}, {end, results.end()}};
}

std::vector<Tensor> cond(const Tensor& condition,
                         const Body& thenBody,
                         std::vector<Tensor> thenInputs,
                         const Body& elseBody,
                         std::vector<Tensor> elseInputs) {
  if (condition.dtype() != DType::Bool || condition.shape().elements() != 1) {
    raise<InvalidArgument>("cond: the condition must be one bool, got {}", condition.type().str());
  }
  Tracer& tracer = Tracer::current();
  const Tensor chosen = reshape(condition, {});
  const auto traced = [&](const Body& body, std::vector<Tensor>& inputs, auto& results) {
    const std::size_t before = tracer.graph().numOps();
    results = body(std::move(inputs));
    requireNoEffect(before);
    return ops::TracedBranch{before, tracer.graph().numOps(), valuesOf(results)};
  };
  std::vector<Tensor> yes;
  std::vector<Tensor> no;
  const ops::TracedBranch thenBranch = traced(thenBody, thenInputs, yes);
  const ops::TracedBranch elseBranch = traced(elseBody, elseInputs, no);
  requireAlike(no, yes, "cond: the branches give");
  ir::GraphBuilder& b = tracer.builder();
  if (const auto results = ops::cutBranches(b, chosen.value(), thenBranch, elseBranch)) {
    return tensorsOf(b, *results);
  }
  if (tracer.training()) {
    raise<InvalidArgument>(
        "cond: a branch draws random numbers or is in several blocks, so both would be computed; "
        "in a training model this is refused, because the gradient of the other one may be NaN");
  }
  for (std::size_t i = 0; i < yes.size(); ++i) {
    yes[i] = where(chosen, yes[i], no[i]);
  }
  return yes;
}

std::vector<Tensor> CPU::operator()(const std::vector<Tensor>& inputs,
                                    const std::vector<TensorType>& results) const {
  requireInference("a host function");
  ir::GraphBuilder& b = Tracer::current().builder();
  return tensorsOf(b, ops::hostCall(b, function_, valuesOf(inputs), results));
}

}  // namespace sluice::nn
