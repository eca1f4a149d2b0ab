#include "sluice/nn/control.h"

#include <string_view>

#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
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

/// The results of a branch, which is computed whether it is chosen or not.
std::vector<Tensor> branch(const Body& body, std::vector<Tensor> inputs) {
  const ir::Graph& graph = Tracer::current().graph();
  const std::size_t before = graph.order().size();
  std::vector<Tensor> results = body(std::move(inputs));
  for (std::size_t i = before; i < graph.order().size(); ++i) {
    const ir::Op& op = graph.op(graph.order()[i]);
    if (op.def->traits.effect) {
      raise<InvalidArgument>(
          "cond: op '{}' of a branch has an effect, and both branches are computed", op.name);
    }
  }
  return results;
}

}  // namespace

std::vector<Tensor> forLoop(std::int64_t count, const Body& body, std::vector<Tensor> inputs) {
  if (count < 0) {
    raise<InvalidArgument>("forLoop: a count cannot be negative, got {}", count);
  }
  if (count > kMaxLoopRuns) {
    raise<Unsupported>("forLoop: a loop is unrolled, {} runs at most, got {}", kMaxLoopRuns, count);
  }
  for (std::int64_t run = 0; run < count; ++run) {
    std::vector<Tensor> results = body(inputs);
    requireAlike(results, inputs, "forLoop: the body takes and gives");
    inputs = std::move(results);
  }
  return inputs;
}

std::vector<Tensor> cond(const Tensor& condition,
                         const Body& thenBody,
                         std::vector<Tensor> thenInputs,
                         const Body& elseBody,
                         std::vector<Tensor> elseInputs) {
  requireInference("cond");
  if (condition.dtype() != DType::Bool || condition.shape().elements() != 1) {
    raise<InvalidArgument>("cond: the condition must be one bool, got {}", condition.type().str());
  }
  const Tensor chosen = reshape(condition, {});
  std::vector<Tensor> results = branch(thenBody, std::move(thenInputs));
  const std::vector<Tensor> others = branch(elseBody, std::move(elseInputs));
  requireAlike(others, results, "cond: the branches give");
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = where(chosen, results[i], others[i]);
  }
  return results;
}

std::vector<Tensor> CPU::operator()(const std::vector<Tensor>& inputs,
                                    const std::vector<TensorType>& results) const {
  requireInference("a host function");
  ir::GraphBuilder& b = Tracer::current().builder();
  return tensorsOf(b, ops::hostCall(b, function_, valuesOf(inputs), results));
}

}  // namespace sluice::nn
