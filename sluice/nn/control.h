// Loops, conditions and host functions inside of a model. Shapes are static, so a loop is its body
// once per run and a condition computes both branches; all else follows from ordinary ops.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/nn/tensor.h"
#include "sluice/ops/host_call.h"

namespace sluice::nn {

/// From tensors to tensors, while the model is traced.
using Body = std::function<std::vector<Tensor>(std::vector<Tensor>)>;

/// Runs of one loop: each is a copy of all ops of the body.
inline constexpr std::int64_t kMaxLoopRuns = 10'000;

/// What `count` runs of the body make of the inputs: each gets the results of the one before, which
/// must be as many and of the same types. Throws InvalidArgument for others or a negative count,
/// Unsupported for more than kMaxLoopRuns.
std::vector<Tensor> forLoop(std::int64_t count, const Body& body, std::vector<Tensor> inputs);

/// The results of one of two bodies, by one bool that is known when the model runs. Both are
/// computed; they must give as many results of the same types, and have no effects such as writing
/// a buffer. In inference models only. Throws InvalidArgument for anything else.
std::vector<Tensor> cond(const Tensor& condition,
                         const Body& thenBody,
                         std::vector<Tensor> thenInputs,
                         const Body& elseBody,
                         std::vector<Tensor> elseInputs);

/// A function of the host as an op of inference models, run each time the model gets there. It must
/// outlive the models that call it, and may be called by several replicas at a time. What it throws
/// reaches the caller of the model.
class CPU {
 public:
  /// Throws InvalidArgument for an empty function or id.
  CPU(ops::HostCallee function, std::string id) : function_(std::move(id), std::move(function)) {}

  /// Results of the given types, which the function must return. Throws InvalidArgument in a
  /// training model.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 const std::vector<TensorType>& results) const;

 private:
  ops::HostFunction function_;
};

}  // namespace sluice::nn
