// Helper functions for models: marks for losses and planners, matrix products in parts, slices at
// computed offsets. MultiConv (multi_conv.h) and loops, conditions and host functions (control.h)
// have their own headers.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/nn/functional.h"
#include "sluice/nn/tensor.h"

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

#pragma GCC visibility pop
