// Helper functions for models: marks for losses and planners, matrix products in parts, slices at
// computed offsets. MultiConv (multi_conv.h) and loops, conditions and host functions (control.h)
// have their own headers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "sluice/nn/functional.h"
#include "sluice/nn/tensor.h"
#include "sluice/ops/custom_op.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

/// Reduces x and marks the result as a loss. A training model minimises the one marked tensor that
/// all other marked tensors feed, whatever forward returns. If there is no such tensor, building
/// the model throws InvalidArgument. With Reduction::None the sum is minimised, so that the first
/// gradients are ones.
Tensor identityLoss(const Tensor& x, Reduction reduction = Reduction::Mean);

/// Which dimension of [m, n] x [n, p] is cut: m, n, p or none.
enum class MatMulSerializationMode : std::uint8_t {
  InputChannels,
  ReducingDim,
  OutputChannels,
  Disabled
};

/// Computes matmul(lhs, rhs) as `factor` smaller products, one at a time, so that only one needs
/// working memory; the products of its gradients are cut in the same way. Both operands have rank 2
/// or both have rank 3. With `keepPrecision`, partial results of 16-bit types are added in float32,
/// in both passes. Throws InvalidArgument unless the factor divides the dimension.
Tensor serializedMatMul(const Tensor& lhs,
                        const Tensor& rhs,
                        MatMulSerializationMode mode,
                        std::int64_t factor = 0,
                        bool keepPrecision = false);

/// Returns x unchanged. The convolution, matrix product or indexing op that made x should use at
/// most this share of a device's memory; the model warns if the share is too small. Changes no
/// result. Throws InvalidArgument unless 0 <= proportion <= 1.
Tensor setAvailableMemory(const Tensor& x, double proportion = 0.6);

/// Every step-th of `size` elements along an axis, starting at the offset in `start`, a single
/// integer that is known only when the model runs. Throws InvalidArgument unless the step divides
/// the size. A slice that reaches beyond x is an error when the model runs.
Tensor dynamicSlice(const Tensor& x,
                    std::int64_t axis,
                    const Tensor& start,
                    std::int64_t size,
                    std::int64_t step = 1);
/// x with the elements along an axis from offset `start` on replaced by `update`.
Tensor dynamicUpdate(const Tensor& x, const Tensor& update, std::int64_t axis, const Tensor& start);

/// The sum of x over all replicas of the model, in their order; it has the same bits in all of
/// them. With one replica it is x. Training minimises the loss of all replicas together, so the
/// gradient is the sum of the replicas' gradients.
Tensor allReduce(const Tensor& x);
/// The x of every replica, in their order: [replicas, ...]. Compiling a model with another
/// replicationFactor throws InvalidArgument. Gradients are summed and scattered.
Tensor allGather(const Tensor& x, std::int64_t replicas);
/// This replica's part of the sum over all replicas. There are as many parts as replicas; all have
/// the same number of consecutive elements, and the end is padded with zeros. Gradients are
/// gathered. Otherwise it is like allGather.
Tensor reduceScatter(const Tensor& x, std::int64_t replicas);

/// Returns x unchanged. While x is not needed, it stays on its device or, if onChip is false, is in
/// remote memory, whatever options.tensorLocations says for its class and size. A location by name
/// (setTensorLocation) takes precedence. A recomputed value has no location. x may also be a
/// parameter.
Tensor tensorLocation(const Tensor& x, bool onChip);
/// Applies recomputationCheckpoint to each tensor.
std::vector<Tensor> recomputationCheckpoint(const std::vector<Tensor>& tensors);

}  // namespace sluice::nn

// Custom ops in models: loadCustomOps loads the ops of a shared library, and customOp uses one of
// them in forward. In training, the library's backward function computes the gradient.

namespace sluice {

using ops::loadCustomOps;
using ops::registerCustomOps;

namespace nn {

/// The results of a loaded op. Of the example outputs only the types are used:
///
///   nn::customOp({x}, {.name = "LeakyRelu", .domain = "com.example", .version = 1,
///                      .exampleOutputs = {x.type()}, .attributes = {{"alpha", 0.02}}})[0]
///
/// An attribute is a number, a text, or a list of one kind of these. Throws InvalidArgument for an
/// op that is not loaded, and for operands, attributes or examples that do not fit it.
std::vector<Tensor> customOp(const std::vector<Tensor>& inputs, const ops::CustomOpUse& use);

}  // namespace nn
}  // namespace sluice

// MultiConv: a group of independent convolutions with common options:
//
//   auto [a, b] = MultiConv().planType(MultiConvPlanType::Serial)([&] {
//     return std::pair(conv2d(x, v), conv2d(x, w));
//   });
//
// The results are the same as those of separate convolutions. Every option is one value for all
// convolutions or a list with one value for each, and is checked when the group ends.
// availableMemoryProportions controls a warning. All other options are hints to planners that share
// the tiles of a device between convolutions. No device of this build has tiles, so these hints
// have no effect: the graph is the same as that of separate convolutions.

namespace sluice::nn {

class Tracer;

enum class MultiConvPlanType : std::uint8_t { Parallel, Serial };

class [[nodiscard]] MultiConv {
 public:
  /// Shares of a device's memory, each between 0 and 1, as with setAvailableMemory: compiling warns
  /// if a share is too small for its convolution.
  MultiConv& availableMemoryProportions(std::vector<double> proportions);
  MultiConv& availableMemoryProportions(double proportion) {
    return availableMemoryProportions(std::vector<double>{proportion});
  }
  /// The type in which products may be accumulated: F32 or F16. It has no effect, because the
  /// devices of this build always accumulate in float32.
  MultiConv& partialsTypes(std::vector<DType> types);
  MultiConv& partialsTypes(DType type) { return partialsTypes(std::vector<DType>{type}); }
  /// Whether convolutions begin on different tiles. It has no effect.
  MultiConv& enableConvDithering(std::vector<bool> on);
  MultiConv& enableConvDithering(bool on) { return enableConvDithering(std::vector<bool>{on}); }
  /// Whether convolutions share the tiles at the same time or use all tiles in turn. It has no
  /// effect: the convolutions of a device run one after the other, and each uses all its threads.
  MultiConv& planType(MultiConvPlanType type) {
    planType_ = type;
    return *this;
  }
  /// The least number of tiles that each convolution gets. It has no effect. Throws InvalidArgument
  /// for a negative number.
  MultiConv& perConvReservedTiles(std::int64_t tiles);
  /// How much slower a convolution may be than alone, so that others get tiles: a share between 0
  /// and 1. It has no effect.
  MultiConv& cycleBackOff(double share);

  /// Runs the body. The group consists of the conv1d, conv2d and conv3d that it calls, directly or
  /// in modules. Throws InvalidArgument for a group inside another, for a group without
  /// convolutions, if a convolution depends on another, and for lists of another length.
  template <class Body>
  auto operator()(Body body) const {
    const Scope scope;
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body();
      finish();
    } else {
      auto result = body();
      finish();
      return result;
    }
  }

  MultiConvPlanType planType() const { return planType_; }

  /// Keeps a group open during its lifetime, for front ends whose body is not a function. Call
  /// finish() before it ends, unless the body failed.
  class Scope {
   public:
    Scope();
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Tracer& tracer_;
  };
  /// Checks the open group and applies the options to it.
  void finish() const;

 private:
  std::vector<double> proportions_;
  std::vector<DType> partials_;
  std::vector<bool> dithering_;
  MultiConvPlanType planType_ = MultiConvPlanType::Parallel;
  std::int64_t reservedTiles_ = 0;
  double cycleBackOff_ = 0.1;
};

// Loops, conditions and host functions inside a model. A body is called while the model is traced.
// Its ops become one loop or branch of the graph, which a device compiles once. Shapes are static,
// and a loop has a fixed number of iterations.

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
