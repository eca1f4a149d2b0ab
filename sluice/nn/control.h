// Loops, conditions and host functions inside a model. Shapes are static, so a loop is unrolled,
// with one copy of its body per iteration, and a condition computes both branches. The rest
// consists of ordinary ops.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/nn/tensor.h"
#include "sluice/ops/host_call.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

/// A function from tensors to tensors that is called while the model is traced.
using Body = std::function<std::vector<Tensor>(std::vector<Tensor>)>;

/// The limit on a loop's iterations; each is a copy of all ops of the body.
inline constexpr std::int64_t kMaxLoopRuns = 10'000;

/// Applies the body `count` times, first to the inputs and then to its own results, and returns the
/// last results. The results must have the number and types of the inputs. Throws InvalidArgument
/// if they do not and for a negative count, and Unsupported for a count above kMaxLoopRuns.
std::vector<Tensor> forLoop(std::int64_t count, const Body& body, std::vector<Tensor> inputs);

/// The results of one of two bodies, chosen by a single bool that is known only when the model
/// runs. Both bodies are computed. They must return equally many results of the same types and must
/// not have effects such as writing a buffer. For inference models only. Throws InvalidArgument if
/// any of this is violated.
std::vector<Tensor> cond(const Tensor& condition,
                         const Body& thenBody,
                         std::vector<Tensor> thenInputs,
                         const Body& elseBody,
                         std::vector<Tensor> elseInputs);

/// A host function as an op of inference models. It runs each time the model reaches the op. The
/// object must outlive the models that call it. Several replicas may call the function at the same
/// time. Exceptions that it throws reach the caller of the model.
class CPU {
 public:
  /// Throws InvalidArgument for an empty function or id.
  CPU(ops::HostCallee function, std::string id) : function_(std::move(id), std::move(function)) {}

  /// Calls the function, which must return tensors of the given types. Throws InvalidArgument in a
  /// training model.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 const std::vector<TensorType>& results) const;

 private:
  ops::HostFunction function_;
};

}  // namespace sluice::nn

#pragma GCC visibility pop
