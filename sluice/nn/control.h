// Loops, conditions and host functions inside a model. A body is called while the model is traced.
// Its ops become one loop or branch of the graph, which a device compiles once. Shapes are static,
// and a loop has a fixed number of iterations.
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

/// A loop that has to be unrolled has at most this many iterations; each is a copy of the body.
inline constexpr std::int64_t kMaxLoopRuns = 10'000;

struct LoopOptions {
  /// Loops of fewer iterations are unrolled: few copies of a body compile quickly, and their ops
  /// can be fused across iterations. Both forms have the same bits.
  std::int64_t rollFrom = 16;
  bool reverse = false;  ///< scan: the first iteration gets the last row
};

/// Applies the body `count` times, first to the inputs and then to its own results, and returns the
/// last results. The results must have the number and types of the inputs. What else the body uses
/// is the same in every iteration, and its tensors cannot be used after the loop.
///
/// A loop is unrolled, whatever its count, if an op of the body has an effect (a buffer is written,
/// something is printed), draws random numbers (dropout in training), or if its ops are in several
/// blocks. Throws InvalidArgument if results do not fit and for a negative count, and Unsupported
/// for a loop that has to be unrolled and has more than kMaxLoopRuns iterations.
std::vector<Tensor> forLoop(std::int64_t count,
                            const Body& body,
                            std::vector<Tensor> inputs,
                            const LoopOptions& options = {});

/// Carried values, and tensors with a row for each iteration.
struct Scanned {
  std::vector<Tensor> carried;
  std::vector<Tensor> rows = {};
};

/// One iteration: takes the carried values and one row of each sequence, and returns the carried
/// values of the next iteration and any number of rows.
using ScanBody = std::function<Scanned(std::vector<Tensor> carried, std::vector<Tensor> rows)>;

/// A loop over the rows of sequences, which are on their first axes. The results are the last
/// carried values and the rows of all iterations, on a new first axis. A row that an iteration
/// returns lies where the row that it got lies. Otherwise this is forLoop. Throws InvalidArgument
/// if there is no sequence, if they have no rows or different numbers of them, and if results do
/// not fit.
Scanned scan(const ScanBody& body,
             std::vector<Tensor> carried,
             std::vector<Tensor> sequences,
             const LoopOptions& options = {});

/// The results of one of two bodies, chosen by a single bool that is known only when the model
/// runs; only that body runs. Both must return equally many results of the same types and must not
/// have effects such as writing a buffer. If a body draws random numbers or is in several blocks,
/// both bodies are computed; this is refused in training models, because the gradient of what was
/// not chosen may be NaN. Throws InvalidArgument if any of this is violated.
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
