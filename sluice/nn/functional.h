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
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

// Reductions, and functions that make, shape, pick and order elements. functional.h includes it and
// says what all functions have in common.

// Reductions over the given axes, or all if none are given.
Tensor sum(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor mean(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor prod(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
/// Equal maxima share the gradient; so do minima.
Tensor max(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor min(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor logsumexp(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
/// The Euclidean norm.
Tensor norm(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
/// Whether any, or every, element is not 0.
Tensor any(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor all(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
struct VarianceOptions {
  std::vector<std::int64_t> axes = {};
  bool unbiased = true;  ///< divides by one less than the number of elements
  bool keepDims = false;
};
Tensor var(const Tensor& x, const VarianceOptions& options = {});
/// PyTorch's std.
Tensor stddev(const Tensor& x, const VarianceOptions& options = {});
/// The position (i64) of the largest or smallest element along an axis; of the first if several are
/// equal.
Tensor argMax(const Tensor& x, std::int64_t axis = -1, bool keepDims = false);
Tensor argMin(const Tensor& x, std::int64_t axis = -1, bool keepDims = false);
Tensor cumsum(const Tensor& x, std::int64_t axis);

// New tensors. Random ones are drawn in each run.
Tensor zeros(const Shape& shape, DType dtype = DType::F32);
Tensor ones(const Shape& shape, DType dtype = DType::F32);
Tensor full(const Shape& shape, double value, DType dtype = DType::F32);
Tensor zerosLike(const Tensor& x);
Tensor onesLike(const Tensor& x);
Tensor fullLike(const Tensor& x, double value);
/// The numbers from start to end, which is left out.
Tensor arange(std::int64_t end);
Tensor arange(double start, double end, double step = 1.0, DType dtype = DType::I64);
/// `count` numbers from start to end, which is the last.
Tensor linspace(double start, double end, std::int64_t count, DType dtype = DType::F32);
Tensor eye(std::int64_t size, DType dtype = DType::F32);
/// Uniform in [0, 1); randn: normal with mean 0 and deviation 1.
Tensor rand(const Shape& shape, DType dtype = DType::F32);
Tensor randn(const Shape& shape, DType dtype = DType::F32);
/// A new last axis of so many classes that is 1 at the index and 0 elsewhere, as i64.
Tensor oneHot(const Tensor& indices, std::int64_t classes);

// Shape.
/// Joins the axes from startAxis to the last one.
Tensor flatten(const Tensor& x, std::int64_t startAxis = 0);
/// One extent may be -1; it takes all that remains.
Tensor reshape(const Tensor& x, std::vector<std::int64_t> dims);
/// Adds axes before the first and repeats axes of extent 1; -1 keeps an axis as it is.
Tensor expand(const Tensor& x, std::vector<std::int64_t> dims);
/// Removes these axes, which must have extent 1; all such axes if none are given.
Tensor squeeze(const Tensor& x, const std::vector<std::int64_t>& axes = {});
/// Adds an axis of extent 1 at this place of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t axis);
/// Swaps two axes.
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1);
Tensor permute(const Tensor& x, std::vector<std::int64_t> axes);
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis = 0);
/// Joins tensors of one shape along a new axis.
Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis = 0);
/// Splits x along an axis into parts with these extents.
std::vector<Tensor> split(const Tensor& x, std::vector<std::int64_t> sizes, std::int64_t axis = 0);
/// Splits x along an axis into `count` parts, the last of which may be smaller; there are fewer if
/// the axis is short.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0);
/// The slices along an axis, without it.
std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis = 0);
/// Repeats x so many times along each axis; axes before the first are added.
Tensor tile(const Tensor& x, std::vector<std::int64_t> repeats);
/// Repeats each element along an axis.
Tensor repeatInterleave(const Tensor& x, std::int64_t repeats, std::int64_t axis);
Tensor flip(const Tensor& x, std::vector<std::int64_t> axes);
/// Moves elements by `shift` along an axis; what leaves at the end comes in at the start.
Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis);
/// The upper (column - row >= diagonal) or lower triangle of the last two axes; zeros elsewhere.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/// Pads as PyTorch does: pairs (before, after) from the last axis on. `mode` is constant, reflect
/// or replicate; negative padding, which cuts, needs constant.
Tensor pad(const Tensor& x,
           const std::vector<std::int64_t>& pads,
           std::string_view mode = "constant",
           double value = 0.0);

// Picking, placing and ordering. Indices are i32 or i64.
/// Every step-th of the elements [start, end) along an axis; negative positions count from its end.
Tensor slice(const Tensor& x,
             std::int64_t axis,
             std::int64_t start,
             std::int64_t end,
             std::int64_t step = 1);
/// Slices of x along an axis at integer indices, whose shape replaces the axis.
Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis = 0);
/// Slices of x along an axis at a list of indices.
Tensor indexSelect(const Tensor& x, std::int64_t axis, const Tensor& indices);
/// One element per index: at the index on this axis and at the index's own position on the others.
/// PyTorch's gather.
Tensor takeAlongDim(const Tensor& x, const Tensor& indices, std::int64_t axis);
/// The last axis of the indices holds coordinates after the first `batchDims` axes.
Tensor gatherNd(const Tensor& x, const Tensor& indices, std::int64_t batchDims = 0);
/// x with the elements that takeAlongDim would read replaced by those of `source`; scatterAdd adds
/// them; `reduce` is sum, prod, amax or amin.
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
Tensor scatterAdd(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
Tensor scatterReduce(const Tensor& x,
                     std::int64_t axis,
                     const Tensor& indices,
                     const Tensor& source,
                     std::string_view reduce);
/// x with `source` in place of what gatherNd would read. reduction: none, add, mul, max or min.
Tensor scatterNd(const Tensor& x,
                 const Tensor& indices,
                 const Tensor& source,
                 std::string_view reduction = "none");
/// x with the slices of `source` added to those that indexSelect would read.
Tensor indexAdd(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
/// x with the value where the mask is true.
Tensor maskedFill(const Tensor& x, const Tensor& mask, double value);
struct Sorted {
  Tensor values;
  Tensor indices;  ///< i64
};
/// The k largest or smallest elements along an axis, in order; of equal ones the first comes first.
Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1, bool largest = true);
Sorted sort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
/// For each element, how many of the sorted boundaries lie below it (right: or equal it), as i64.
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false);
/// Reverses the first `lengths` steps of each sequence of [steps, batch, ...].
Tensor reverseSequence(const Tensor& x, const Tensor& lengths);
/// Rows of `table` at integer indices.
Tensor embedding(const Tensor& indices, const Tensor& table);

using ops::CrossEntropyOptions;
using ops::CtcDecoderOptions;
using ops::CtcOptions;
using ops::GridSampleOptions;
using ops::NllOptions;
using ops::PrintOptions;
using ops::Reduction;
using ops::RoiAlignOptions;

// The functions that are one op and take tensors alone: a line each. It declares and defines them,
// policies know their names (precision.h), and function_table_test.cpp checks that they and the
// others cover the op table. ONE(function, "PyTorch's name", Op) is a function of one tensor, TWO
// of two, the second of which may be a number. A function without a name in policies ("") computes
// nothing, so that its operand keeps its type.
#define SLUICE_NN_FUNCTIONS(ONE, TWO)                       \
  ONE(abs, "abs", Abs)                                      \
  ONE(acos, "acos", Acos)                                   \
  ONE(acosh, "acosh", Acosh)                                \
  ONE(asin, "asin", Asin)                                   \
  ONE(asinh, "asinh", Asinh)                                \
  ONE(atan, "atan", Atan)                                   \
  ONE(atanh, "atanh", Atanh)                                \
  ONE(bitwiseNot, "bitwise_not", BitwiseNot)                \
  ONE(ceil, "ceil", Ceil)                                   \
  ONE(cos, "cos", Cos)                                      \
  ONE(cosh, "cosh", Cosh)                                   \
  ONE(det, "det", Det)                                      \
  ONE(detach, "", Detach)                                   \
  ONE(erf, "erf", Erf)                                      \
  ONE(erfc, "erfc", Erfc)                                   \
  ONE(exp, "exp", Exp)                                      \
  ONE(expm1, "expm1", Expm1)                                \
  ONE(floor, "floor", Floor)                                \
  ONE(hardswish, "hardswish", HardSwish)                    \
  ONE(identity, "", Identity)                               \
  ONE(isnan, "isnan", IsNan)                                \
  ONE(log, "log", Log)                                      \
  ONE(log1p, "log1p", Log1p)                                \
  ONE(logicalNot, "logical_not", LogicalNot)                \
  ONE(mish, "mish", Mish)                                   \
  ONE(neg, "neg", Neg)                                      \
  ONE(nop, "", Nop)                                         \
  ONE(reciprocal, "reciprocal", Reciprocal)                 \
  ONE(recomputationCheckpoint, "", RecomputationCheckpoint) \
  ONE(relu, "relu", Relu)                                   \
  ONE(round, "round", Round)                                \
  ONE(rsqrt, "rsqrt", Rsqrt)                                \
  ONE(selu, "selu", Selu)                                   \
  ONE(sigmoid, "sigmoid", Sigmoid)                          \
  ONE(sign, "sign", Sign)                                   \
  ONE(silu, "silu", Silu)                                   \
  ONE(sin, "sin", Sin)                                      \
  ONE(sinh, "sinh", Sinh)                                   \
  ONE(softplus, "softplus", Softplus)                       \
  ONE(softsign, "softsign", Softsign)                       \
  ONE(sqrt, "sqrt", Sqrt)                                   \
  ONE(square, "square", Square)                             \
  ONE(tan, "tan", Tan)                                      \
  ONE(tanh, "tanh", Tanh)                                   \
  TWO(add, "add", Add)                                      \
  TWO(atan2, "atan2", Atan2)                                \
  TWO(bitwiseAnd, "bitwise_and", BitwiseAnd)                \
  TWO(bitwiseOr, "bitwise_or", BitwiseOr)                   \
  TWO(bitwiseXor, "bitwise_xor", BitwiseXor)                \
  TWO(div, "div", Div)                                      \
  TWO(equal, "equal", Equal)                                \
  TWO(greater, "greater", Greater)                          \
  TWO(greaterEqual, "greater_equal", GreaterEqual)          \
  TWO(less, "less", Less)                                   \
  TWO(lessEqual, "less_equal", LessEqual)                   \
  TWO(logicalAnd, "logical_and", LogicalAnd)                \
  TWO(logicalOr, "logical_or", LogicalOr)                   \
  TWO(logicalXor, "logical_xor", LogicalXor)                \
  TWO(maximum, "maximum", Maximum)                          \
  TWO(minimum, "minimum", Minimum)                          \
  TWO(mul, "mul", Mul)                                      \
  TWO(notEqual, "not_equal", NotEqual)                      \
  TWO(pow, "pow", Pow)                                      \
  TWO(sub, "sub", Sub)

// NOLINTBEGIN(bugprone-macro-parentheses): names, not expressions
#define SLUICE_DECLARE_ONE(function, torch, op) Tensor function(const Tensor& x);
#define SLUICE_DECLARE_TWO(function, torch, op)      \
  Tensor function(const Tensor& x, const Tensor& y); \
  Tensor function(const Tensor& x, double y);
/// Functions of one or two tensors, element by element (det: of the matrices in the last two axes).
/// Comparisons and logic return bool tensors; a number takes the type of the tensor. detach lets no
/// gradient pass. With recomputationCheckpoint x is kept for the backward pass, and what follows is
/// recomputed from it (Options::recomputation). No pass removes or merges a nop.
SLUICE_NN_FUNCTIONS(SLUICE_DECLARE_ONE, SLUICE_DECLARE_TWO)
#undef SLUICE_DECLARE_ONE
#undef SLUICE_DECLARE_TWO
// NOLINTEND(bugprone-macro-parentheses)

// Element-wise functions with settings, and those made of several ops.
Tensor celu(const Tensor& x, double alpha = 1.0);
Tensor clamp(const Tensor& x, double low, double high);
Tensor elu(const Tensor& x, double alpha = 1.0);
/// `approximate` is "none", which uses erf, or "tanh".
Tensor gelu(const Tensor& x, std::string_view approximate = "none");
/// The first half along an axis times the sigmoid of the second.
Tensor glu(const Tensor& x, std::int64_t axis = -1);
/// x where |x| exceeds lambda, else 0.
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
/// x / 6 + 1/2, at least 0 and at most 1.
Tensor hardsigmoid(const Tensor& x);
Tensor hardtanh(const Tensor& x, double low = -1.0, double high = 1.0);
Tensor leakyRelu(const Tensor& x, double negativeSlope = 0.01);
Tensor logsigmoid(const Tensor& x);
/// `weight` has one element, or one for each channel (axis 1).
Tensor prelu(const Tensor& x, const Tensor& weight);
Tensor relu6(const Tensor& x);
/// Moves x towards 0 by lambda.
Tensor softshrink(const Tensor& x, double lambda = 0.5);
Tensor tanhshrink(const Tensor& x);
/// x where it exceeds the threshold, else the value.
Tensor threshold(const Tensor& x, double threshold, double value = 0.0);
/// x where the condition, a bool tensor, is true, else y; all are broadcast.
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y);
/// The remainder of x / y with the sign of y; with fmod, the sign of x.
Tensor remainder(const Tensor& x, const Tensor& y);
Tensor fmod(const Tensor& x, const Tensor& y);
Tensor bitwiseLeftShift(const Tensor& x, const Tensor& y);
Tensor bitwiseRightShift(const Tensor& x, const Tensor& y);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);

// Constants of the current trace.
Tensor constant(const HostTensor& value);
Tensor scalar(double value, DType dtype = DType::F32);

// Linear algebra and convolution.
/// Takes any rank and broadcasts the batch axes, like NumPy's matmul.
Tensor matmul(const Tensor& x, const Tensor& y);
/// x wᵀ + bias; w is [out, in], bias is [out] or absent.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias = {});
/// A sum of products by index letters: "bij,bjk->bik".
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
/// The discrete Fourier transform along an axis. The last axis has extent 2: the real and the
/// imaginary part. The inverse, ifft, divides by the extent of the axis.
Tensor fft(const Tensor& x, std::int64_t axis);
Tensor ifft(const Tensor& x, std::int64_t axis);

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

struct ConvTransposeOptions {
  Extents stride = {1};
  Extents padding = {0};        ///< what the convolution would pad is cut off
  Extents outputPadding = {0};  ///< added to the end of each axis
  Extents dilation = {1};
  std::int64_t groups = 1;
};
/// The gradient of a convolution with respect to its input. w is [channels, out channels / groups,
/// kernel...].
Tensor convTranspose1d(const Tensor& x,
                       const Tensor& w,
                       const ConvTransposeOptions& options = {},
                       const Tensor& bias = {});
Tensor convTranspose2d(const Tensor& x,
                       const Tensor& w,
                       const ConvTransposeOptions& options = {},
                       const Tensor& bias = {});
Tensor convTranspose3d(const Tensor& x,
                       const Tensor& w,
                       const ConvTransposeOptions& options = {},
                       const Tensor& bias = {});

// Pooling of [batch, channels, one to three spatial axes]. The default stride is the kernel size.
struct PoolWindow {
  Extents kernel = {2};
  Extents stride = {};  ///< empty: the kernel size
  Extents padding = {0};
  Extents dilation = {1};       ///< of maximum pooling
  bool ceilMode = false;        ///< a last window that is not full counts
  bool countIncludePad = true;  ///< padding counts as zeros in the mean
};
Tensor maxPool1d(const Tensor& x, const PoolWindow& window);
Tensor maxPool2d(const Tensor& x, const PoolWindow& window);
Tensor maxPool3d(const Tensor& x, const PoolWindow& window);
Tensor avgPool1d(const Tensor& x, const PoolWindow& window);
Tensor avgPool2d(const Tensor& x, const PoolWindow& window);
Tensor avgPool3d(const Tensor& x, const PoolWindow& window);
Tensor maxPool2d(const Tensor& x,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride = {},
                 std::int64_t padding = 0);
Tensor avgPool2d(const Tensor& x,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride = {},
                 std::int64_t padding = 0);
/// Windows that cover each spatial axis in so many, almost equal parts; an extent of -1 keeps the
/// axis.
Tensor adaptiveAvgPool1d(const Tensor& x, const Extents& size);
Tensor adaptiveAvgPool2d(const Tensor& x, const Extents& size);
Tensor adaptiveAvgPool3d(const Tensor& x, const Extents& size);
Tensor adaptiveMaxPool1d(const Tensor& x, const Extents& size);
Tensor adaptiveMaxPool2d(const Tensor& x, const Extents& size);
Tensor adaptiveMaxPool3d(const Tensor& x, const Extents& size);
/// [batch, channels, ...] to [batch, channels]: the mean over all spatial axes.
Tensor globalAvgPool(const Tensor& x);

// Images [batch, channels, ...].
struct InterpolateOptions {
  Extents size = {};                     ///< of the spatial axes; either this or the factors
  std::vector<double> scaleFactor = {};  ///< one for all spatial axes, or one per axis
  /// nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area
  std::string_view mode = "nearest";
  bool alignCorners = false;
};
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// Samples x at positions (x, y) from -1 to 1; grid is [batch, rows, columns, 2].
Tensor gridSample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});
/// Averages or maxima of regions (x1, y1, x2, y2), [count, 4], of the images at batchIndices.
Tensor roiAlign(const Tensor& x,
                const Tensor& regions,
                const Tensor& batchIndices,
                const RoiAlignOptions& options);
/// Channels become blocks of factor x factor pixels, and back.
Tensor pixelShuffle(const Tensor& x, std::int64_t factor);
Tensor pixelUnshuffle(const Tensor& x, std::int64_t factor);

// Softmax, normalization, attention, dropout.
Tensor softmax(const Tensor& x, std::int64_t axis = -1);
Tensor logSoftmax(const Tensor& x, std::int64_t axis = -1);
Tensor softmin(const Tensor& x, std::int64_t axis = -1);
/// 1 at the largest element along the axis, the first of equal ones, and 0 elsewhere.
Tensor hardmax(const Tensor& x, std::int64_t axis = -1);
/// x divided by its Euclidean norm along an axis, which counts as eps or more.
Tensor normalize(const Tensor& x, std::int64_t axis = 1, double eps = 1e-12);
Tensor cosineSimilarity(const Tensor& x, const Tensor& y, std::int64_t axis = 1, double eps = 1e-8);
/// Zeroes each element with probability p and scales the others by 1 / (1 - p). Returns x unchanged
/// if `training` is false, and in inference models.
Tensor dropout(const Tensor& x, double p, bool training = true);
/// Zeroes whole channels of [batch, channels, one, two or three spatial axes].
Tensor dropout1d(const Tensor& x, double p, bool training = true);
Tensor dropout2d(const Tensor& x, double p, bool training = true);
Tensor dropout3d(const Tensor& x, double p, bool training = true);
/// Normalizes over the last axes; there are as many as `weight` has.
Tensor layerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
Tensor rmsNorm(const Tensor& x, const Tensor& weight, double eps = 1e-5);
/// Normalizes groups of channels (axis 1).
Tensor groupNorm(const Tensor& x,
                 const Tensor& weight,
                 const Tensor& bias,
                 std::int64_t groups,
                 double eps = 1e-5);
/// Normalizes each channel of each example. Weight and bias are [channels] or absent.
Tensor instanceNorm(const Tensor& x,
                    const Tensor& weight = {},
                    const Tensor& bias = {},
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
/// The loss of scores [batch, classes, ...] and labels [batch, ...], i32 or i64. Scores of
/// sequences that have the classes last are reshaped to [-1, classes] before, or transposed.
Tensor crossEntropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options = {});
Tensor nllLoss(const Tensor& logProbabilities, const Tensor& labels, NllOptions options = {});
Tensor mseLoss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);
Tensor l1Loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);
Tensor bceLoss(const Tensor& p, const Tensor& target, Reduction reduction = Reduction::Mean);
Tensor bceWithLogits(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::Mean);

/// Half of the squared error up to beta, and then the absolute error less beta / 2; the squared
/// part is divided by beta.
Tensor smoothL1Loss(const Tensor& x,
                    const Tensor& target,
                    double beta = 1.0,
                    Reduction reduction = Reduction::Mean);
/// delta times smoothL1Loss with beta = delta.
Tensor huberLoss(const Tensor& x,
                 const Tensor& target,
                 double delta = 1.0,
                 Reduction reduction = Reduction::Mean);
struct KlDivOptions {
  Reduction reduction = Reduction::Mean;
  bool batchMean = false;  ///< divides the sum by the first extent; takes the place of `reduction`
  bool logTarget = false;  ///< the target is a logarithm, too
};
/// The sum of target (log target - x) for log-probabilities x.
Tensor klDiv(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});
/// logProbabilities are [steps, batch, classes], targets [batch, labels], lengths [batch].
struct CtcLengths {
  Tensor input;
  Tensor target;
};
Tensor ctcLoss(const Tensor& logProbabilities,
               const Tensor& targets,
               const CtcLengths& lengths,
               const CtcOptions& options = {});

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
