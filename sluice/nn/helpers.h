// Helper functions of models: marks for losses and planners, matrix products in parts, blocks at
// computed offsets. MultiConv, loops, conditions and host functions are in headers of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/nn/functional.h"
#include "sluice/nn/tensor.h"

namespace sluice::nn {

/// The reduction of x, marked as a loss of the model: a training model minimises the one marked
/// tensor that all others feed, whatever forward returns. Several that do not feed one are an
/// InvalidArgument when the model is built. Reduction::None: the sum is minimised, so that the
/// first gradients are ones.
Tensor identityLoss(const Tensor& x, Reduction reduction = Reduction::Mean);

/// x itself, as an op that no pass removes or merges.
Tensor nop(const Tensor& x);

/// Which dimension of [m, n] x [n, p] is cut: m, n, p or none.
enum class MatMulSerializationMode : std::uint8_t {
  InputChannels,
  ReducingDim,
  OutputChannels,
  Disabled
};

/// matmul(lhs, rhs) as `factor` smaller products, of which only one at a time needs memory for its
/// working; so are the products of its gradients. Both have rank 2 or both rank 3. `keepPrecision`:
/// partial results of half types are added in float32, in both passes. Throws InvalidArgument
/// unless the factor divides the dimension.
Tensor serializedMatMul(const Tensor& lhs,
                        const Tensor& rhs,
                        MatMulSerializationMode mode,
                        std::int64_t factor = 0,
                        bool keepPrecision = false);

/// x itself. The convolution, matrix product or indexing op that made it should do with this share
/// of a device's memory; the model warns where it is too little. Changes no result. Throws
/// InvalidArgument unless 0 <= proportion <= 1.
Tensor setAvailableMemory(const Tensor& x, double proportion = 0.6);

/// `size` elements (every step-th of them) along an axis, from the offset that `start`, one
/// integer, holds when the model runs. Throws InvalidArgument unless the step divides the size; a
/// block that leaves x is an error of the run.
Tensor dynamicSlice(const Tensor& x,
                    std::int64_t axis,
                    const Tensor& start,
                    std::int64_t size,
                    std::int64_t step = 1);
/// x with `update` put in its place along an axis, from the offset that `start` holds.
Tensor dynamicUpdate(const Tensor& x, const Tensor& update, std::int64_t axis, const Tensor& start);

/// The sum of x over all replicas of the model, in their order: the same bits in each of them. With
/// one replica x itself. What is minimised is what all replicas return together, so the gradient is
/// the sum of theirs.
Tensor allReduce(const Tensor& x);
/// x of every replica, in their order: [replicas, ...]. A model whose replicationFactor is another
/// is an InvalidArgument when it is compiled. Gradients are summed and scattered.
Tensor allGather(const Tensor& x, std::int64_t replicas);
/// A replica's part of the sum over all of them: one of as many equal runs of elements as there are
/// replicas, the last ones padded with zeros. Gradients are gathered. As allGather otherwise.
Tensor reduceScatter(const Tensor& x, std::int64_t replicas);

/// Each of them as recomputationCheckpoint of one.
std::vector<Tensor> recomputationCheckpoint(const std::vector<Tensor>& tensors);

}  // namespace sluice::nn
