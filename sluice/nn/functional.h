// Functions of symbolic tensors, with PyTorch's conventions: images are [batch, channels, height,
// width], axes may be negative, and the default stride of a window is its size. Each function is a
// thin wrapper of an op in sluice/ops, which checks shapes and types (InvalidArgument). Float
// operands of 16 and 32 bits are first cast to one type: see precision.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sluice/nn/tensor.h"
#include "sluice/ops/op_options.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

using ops::CrossEntropyOptions;
using ops::CtcDecoderOptions;
using ops::NllOptions;
using ops::PrintOptions;
using ops::Reduction;

// Element-wise.
Tensor relu(const Tensor& x);
/// `approximate` is "none", which uses erf, or "tanh".
Tensor gelu(const Tensor& x, std::string_view approximate = "none");
Tensor silu(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor clamp(const Tensor& x, double low, double high);
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y);
/// Comparisons return bool tensors.
Tensor equal(const Tensor& x, const Tensor& y);
Tensor greater(const Tensor& x, const Tensor& y);
Tensor less(const Tensor& x, const Tensor& y);
Tensor cast(const Tensor& x, DType dtype);
/// Returns x unchanged. If activations are recomputed (Options::recomputation), x is kept for the
/// backward pass and what follows it is recomputed from here.
Tensor recomputationCheckpoint(const Tensor& x);
/// Returns x unchanged, but no gradient passes through it.
Tensor detach(const Tensor& x);

// Constants of the current trace.
Tensor constant(const HostTensor& value);
Tensor scalar(double value, DType dtype = DType::F32);

// Linear algebra and convolution.
/// Takes any rank and broadcasts the batch axes, like NumPy's matmul.
Tensor matmul(const Tensor& x, const Tensor& y);
/// x wᵀ + bias; w is [out, in], bias is [out] or absent.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias = {});

/// One number for all spatial axes, or one per axis.
using Extents = std::vector<std::int64_t>;
struct ConvOptions {
  Extents stride = {1};
  Extents padding = {0};  ///< on both sides
  Extents dilation = {1};
  std::int64_t groups = 1;
};
/// w is [out channels, channels / groups, kernel...]; bias is [out channels] or absent.
Tensor conv1d(const Tensor& x,
              const Tensor& w,
              const ConvOptions& options = {},
              const Tensor& bias = {});
Tensor conv2d(const Tensor& x,
              const Tensor& w,
              const ConvOptions& options = {},
              const Tensor& bias = {});
Tensor conv3d(const Tensor& x,
              const Tensor& w,
              const ConvOptions& options = {},
              const Tensor& bias = {});

// Pooling. The default stride is the kernel size.
Tensor maxPool2d(const Tensor& x,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride = {},
                 std::int64_t padding = 0);
/// Padding counts as zeros in the mean.
Tensor avgPool2d(const Tensor& x,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride = {},
                 std::int64_t padding = 0);

/// [batch, channels, ...] to [batch, channels]: the mean over all spatial axes.
Tensor globalAvgPool(const Tensor& x);

// Reductions over the given axes, or all if none are given.
Tensor sum(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor mean(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor max(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
/// The position (i64) of the largest element along an axis; of the first if several are equal.
Tensor argMax(const Tensor& x, std::int64_t axis = -1, bool keepDims = false);

// Shape.
/// Joins the axes from startAxis to the last one.
Tensor flatten(const Tensor& x, std::int64_t startAxis = 0);
/// One extent may be -1; it takes all that remains.
Tensor reshape(const Tensor& x, std::vector<std::int64_t> dims);
/// Swaps two axes.
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1);
Tensor permute(const Tensor& x, std::vector<std::int64_t> axes);
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis = 0);
/// Splits x along an axis into parts with these extents.
std::vector<Tensor> split(const Tensor& x, std::vector<std::int64_t> sizes, std::int64_t axis = 0);
/// Elements [start, end) along an axis; negative positions count from its end.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end);
/// Slices of x along an axis at integer indices, whose shape replaces the axis.
Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis = 0);
/// Rows of `table` at integer indices.
Tensor embedding(const Tensor& indices, const Tensor& table);

// Softmax, normalization, attention, dropout.
Tensor softmax(const Tensor& x, std::int64_t axis = -1);
Tensor logSoftmax(const Tensor& x, std::int64_t axis = -1);
/// Zeroes each element with probability p and scales the others by 1 / (1 - p). Returns x unchanged
/// if `training` is false, and in inference models.
Tensor dropout(const Tensor& x, double p, bool training = true);
/// Normalizes over the last axes; there are as many as `weight` has.
Tensor layerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
Tensor rmsNorm(const Tensor& x, const Tensor& weight, double eps = 1e-5);
/// Normalizes groups of channels (axis 1).
Tensor groupNorm(const Tensor& x,
                 const Tensor& weight,
                 const Tensor& bias,
                 std::int64_t groups,
                 double eps = 1e-5);
struct BatchNormResult {
  Tensor y;
  Tensor mean;
  Tensor variance;  ///< biased
};
/// Normalizes each channel (axis 1) with the batch's own statistics.
BatchNormResult batchNorm(const Tensor& x,
                          const Tensor& weight,
                          const Tensor& bias,
                          double eps = 1e-5);
struct ChannelStatistics {
  Tensor mean;
  Tensor variance;
};
/// Normalizes each channel with the given statistics.
Tensor batchNorm(const Tensor& x,
                 const Tensor& weight,
                 const Tensor& bias,
                 const ChannelStatistics& statistics,
                 double eps = 1e-5);
struct AttentionOptions {
  Tensor mask = {};  ///< bool (true keeps) or float (added), broadcast to [..., L, S]
  std::optional<double> scale = {};  ///< not set: 1 / sqrt(E)
  bool causal = false;               ///< query i sees only keys 0 to i
};
/// q is [..., L, E], k is [..., S, E] and v is [..., S, Ev]; the result is [..., L, Ev].
Tensor scaledDotProductAttention(const Tensor& q,
                                 const Tensor& k,
                                 const Tensor& v,
                                 const AttentionOptions& options = {});

// Losses. Class scores are [batch, classes, ...]; labels are i32 or i64 [batch, ...].
Tensor crossEntropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options = {});
Tensor nllLoss(const Tensor& logProbabilities, const Tensor& labels, NllOptions options = {});
Tensor mseLoss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);
Tensor l1Loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);
Tensor bceLoss(const Tensor& p, const Tensor& target, Reduction reduction = Reduction::Mean);
Tensor bceWithLogits(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);

// Decoding and printing.
struct CtcDecoded {
  Tensor probabilities;  ///< [batch, paths], the best path first
  Tensor lengths;        ///< [batch, paths]
  Tensor paths;          ///< [batch, paths, steps]
};
/// Takes log-probabilities [steps, batch, classes] and lengths [batch], i32 or i64.
CtcDecoded ctcBeamSearchDecoder(const Tensor& logProbabilities,
                                const Tensor& lengths,
                                const CtcDecoderOptions& options = {});
/// Returns x unchanged; every run logs it and, in training, its gradient. The op is dropped if its
/// result is not used.
Tensor printTensor(const Tensor& x, const PrintOptions& options = {});

}  // namespace sluice::nn

#pragma GCC visibility pop
