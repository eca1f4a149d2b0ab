// One function per op: appends it to the builder's graph and returns its result. Gradients,
// composites and front ends are written with these. Shapes and types are checked by the op itself,
// which throws InvalidArgument.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/ir/graph_builder.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

// Element-wise, two operands, NumPy broadcasting, equal dtypes.
Value add(GraphBuilder& b, Value x, Value y);
/// The angle of the point (x, y).
Value atan2(GraphBuilder& b, Value y, Value x);
/// Integers truncate toward zero; an integer divided by zero is 0.
Value div(GraphBuilder& b, Value x, Value y);
/// Ties give their gradient to x; so does minimum.
Value maximum(GraphBuilder& b, Value x, Value y);
Value minimum(GraphBuilder& b, Value x, Value y);
/// The remainder of x / y with the sign of y, or with that of x; 0 for an integer y of 0.
Value mod(GraphBuilder& b, Value x, Value y, bool signOfX = false);
Value mul(GraphBuilder& b, Value x, Value y);
Value pow(GraphBuilder& b, Value x, Value y);
Value sub(GraphBuilder& b, Value x, Value y);

// Comparisons and logic: the result is bool.
Value equal(GraphBuilder& b, Value x, Value y);
Value greater(GraphBuilder& b, Value x, Value y);
Value greaterEqual(GraphBuilder& b, Value x, Value y);
Value isInf(GraphBuilder& b, Value x, bool negative = true, bool positive = true);
Value isNan(GraphBuilder& b, Value x);
Value less(GraphBuilder& b, Value x, Value y);
Value lessEqual(GraphBuilder& b, Value x, Value y);
Value logicalAnd(GraphBuilder& b, Value x, Value y);
Value logicalNot(GraphBuilder& b, Value x);
Value logicalOr(GraphBuilder& b, Value x, Value y);
Value logicalXor(GraphBuilder& b, Value x, Value y);
Value notEqual(GraphBuilder& b, Value x, Value y);
/// x where the condition holds, else y; all three are broadcast together.
Value where(GraphBuilder& b, Value condition, Value x, Value y);

// Bits of integers.
Value bitwiseAnd(GraphBuilder& b, Value x, Value y);
Value bitwiseNot(GraphBuilder& b, Value x);
Value bitwiseOr(GraphBuilder& b, Value x, Value y);
Value bitwiseXor(GraphBuilder& b, Value x, Value y);
/// direction: LEFT or RIGHT, by y places.
Value bitShift(GraphBuilder& b, Value x, Value y, std::string_view direction);

// Element-wise, one operand.
Value abs(GraphBuilder& b, Value x);
Value acos(GraphBuilder& b, Value x);
Value acosh(GraphBuilder& b, Value x);
Value asin(GraphBuilder& b, Value x);
Value asinh(GraphBuilder& b, Value x);
Value atan(GraphBuilder& b, Value x);
Value atanh(GraphBuilder& b, Value x);
Value ceil(GraphBuilder& b, Value x);
Value clamp(GraphBuilder& b, Value x, double low, double high);
Value cos(GraphBuilder& b, Value x);
Value cosh(GraphBuilder& b, Value x);
Value erf(GraphBuilder& b, Value x);
Value exp(GraphBuilder& b, Value x);
Value expm1(GraphBuilder& b, Value x);
Value floor(GraphBuilder& b, Value x);
Value log(GraphBuilder& b, Value x);
Value log1p(GraphBuilder& b, Value x);
Value neg(GraphBuilder& b, Value x);
Value reciprocal(GraphBuilder& b, Value x);
/// Halves to the even neighbour.
Value round(GraphBuilder& b, Value x);
Value rsqrt(GraphBuilder& b, Value x);
Value sign(GraphBuilder& b, Value x);
Value sin(GraphBuilder& b, Value x);
Value sinh(GraphBuilder& b, Value x);
Value sqrt(GraphBuilder& b, Value x);
Value square(GraphBuilder& b, Value x);
Value tan(GraphBuilder& b, Value x);
Value tanh(GraphBuilder& b, Value x);

// Activations, and the gradients that are ops of their own.
Value celu(GraphBuilder& b, Value x, double alpha = 1.0);
Value elu(GraphBuilder& b, Value x, double alpha = 1.0);
/// approximate: none (by erf) or tanh.
Value gelu(GraphBuilder& b, Value x, std::string_view approximate = "none");
Value geluGrad(GraphBuilder& b, Value x, Value dy, std::string_view approximate = "none");
/// 1 at the largest element along the axis, the first of equal ones, and 0 elsewhere.
Value hardmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value hardSigmoid(GraphBuilder& b, Value x, double alpha = 0.2, double beta = 0.5);
Value hardSwish(GraphBuilder& b, Value x);
Value leakyRelu(GraphBuilder& b, Value x, double alpha = 0.01);
Value mish(GraphBuilder& b, Value x);
/// The slope for negative x is broadcast to x.
Value prelu(GraphBuilder& b, Value x, Value slope);
Value relu(GraphBuilder& b, Value x);
/// dy where relu's output y is above 0, else 0.
Value reluGrad(GraphBuilder& b, Value y, Value dy);
Value selu(GraphBuilder& b, Value x);
/// x drawn towards 0 by bias where it is beyond lambd, else 0.
Value shrink(GraphBuilder& b, Value x, double lambd = 0.5, double bias = 0.0);
Value sigmoid(GraphBuilder& b, Value x);
Value silu(GraphBuilder& b, Value x);
Value softplus(GraphBuilder& b, Value x);
Value softsign(GraphBuilder& b, Value x);
Value thresholdedRelu(GraphBuilder& b, Value x, double alpha = 1.0);

// The same elements.
/// Identity when x already has the type.
Value cast(GraphBuilder& b, Value x, DType dtype);
/// No gradient passes.
Value detach(GraphBuilder& b, Value x);
Value identity(GraphBuilder& b, Value x);
/// x, kept when activations are recomputed.
Value recomputationCheckpoint(GraphBuilder& b, Value x);
/// The sum over all replicas, in replica order; part of the update.
Value replicaSum(GraphBuilder& b, Value x);
/// Never removed or merged.
Value nop(GraphBuilder& b, Value x);

// Reductions. Empty axes: all. Negative axes count from the end.
/// The position of the largest element, the first of equal ones, as i64.
Value argMax(GraphBuilder& b, Value x, std::int64_t axis, bool keepDims = false);
struct CumSumOptions {
  bool exclusive = false;  ///< leave out the element itself
  bool reverse = false;    ///< sum from the back
};
Value cumSum(GraphBuilder& b, Value x, std::int64_t axis, CumSumOptions options = {});
Value mean(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceLogSumExp(GraphBuilder& b,
                      Value x,
                      std::vector<std::int64_t> axes,
                      bool keepDims = false);
/// Equal maxima share the gradient equally; so do minima.
Value reduceMax(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceMean(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceMin(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceProd(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
Value reduceProdGrad(GraphBuilder& b, Value x, Value dy, std::vector<std::int64_t> axes);
Value reduceSum(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
/// Sums a broadcast result back to `shape` (identity when it already has it).
Value sumTo(GraphBuilder& b, Value x, const Shape& shape);
/// The mean of the squared differences from the mean.
Value variance(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);

// Shape.
Value broadcastTo(GraphBuilder& b, Value x, const Shape& shape);
Value concat(GraphBuilder& b, std::vector<Value> values, std::int64_t axis);
/// Axes first to last become one.
Value flatten(GraphBuilder& b, Value x, std::int64_t first = 0, std::int64_t last = -1);
/// Indices of i32 or i64, negative ones count from the end; their shape replaces the axis.
Value gather(GraphBuilder& b, Value x, Value indices, std::int64_t axis = 0);
/// mode: constant, reflect or edge.
Value pad(GraphBuilder& b,
          Value x,
          std::vector<std::int64_t> before,
          std::vector<std::int64_t> after,
          std::string_view mode = "constant",
          double value = 0.0);
Value reshape(GraphBuilder& b, Value x, const Shape& shape);
/// Empty axes: all.
Value reverse(GraphBuilder& b, Value x, std::vector<std::int64_t> axes = {});
/// data with the updates added to the rows that gather(data, indices, axis) would read.
Value scatterAdd(GraphBuilder& b, Value data, Value indices, Value updates, std::int64_t axis = 0);
/// One start, end and step per axis, as NumPy; no steps: all 1.
Value slice(GraphBuilder& b,
            Value x,
            std::vector<std::int64_t> starts,
            std::vector<std::int64_t> ends,
            std::vector<std::int64_t> steps = {});
/// Zeros of `shape` with x placed where slice would take it from.
Value sliceScatter(GraphBuilder& b,
                   Value x,
                   const Shape& shape,
                   std::vector<std::int64_t> starts,
                   std::vector<std::int64_t> ends,
                   std::vector<std::int64_t> steps = {});
std::vector<Value> split(GraphBuilder& b,
                         Value x,
                         std::int64_t axis,
                         std::vector<std::int64_t> sizes);
/// Drops axes of extent 1; empty axes: all of them.
Value squeeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes = {});
Value tile(GraphBuilder& b, Value x, std::vector<std::int64_t> repeats);
/// Empty permutation: reverses the axes.
Value transpose(GraphBuilder& b, Value x, std::vector<std::int64_t> permutation = {});
/// The upper (column - row >= diagonal) or lower triangle of the last two axes.
Value trilu(GraphBuilder& b, Value x, bool upper, std::int64_t diagonal = 0);
/// Adds axes of extent 1 at these positions of the result.
Value unsqueeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes);

// Indexing by element or tuple. Indices are i32 or i64; negative ones count from the end.
/// The position of the smallest element, the first of equal ones, as i64.
Value argMin(GraphBuilder& b, Value x, std::int64_t axis, bool keepDims = false);
/// As many elements as indices: each at its index on the axis and its own place on all others.
Value gatherElements(GraphBuilder& b, Value x, Value indices, std::int64_t axis = 0);
/// The last axis of indices holds coordinates behind the first `batchDims` axes, which both share.
Value gatherNd(GraphBuilder& b, Value x, Value indices, std::int64_t batchDims = 0);
/// Per element how many of the sorted boundaries lie below it (right: or equal it), as i64.
Value bucketize(GraphBuilder& b, Value x, Value boundaries, bool right = false);
/// The block of these sizes at offsets that an operand gives, one for each of the axes.
Value dynamicSlice(GraphBuilder& b,
                   Value x,
                   Value offsets,
                   std::vector<std::int64_t> axes,
                   std::vector<std::int64_t> sizes);
/// x with the block replaced by `update`.
Value dynamicUpdate(
    GraphBuilder& b, Value x, Value offsets, Value update, std::vector<std::int64_t> axes);
/// Which of `sourceRows` rows lands in each of `rows` rows when run i of counts[i] rows is copied
/// from sourceOffsets[i] to offsets[i]; -1 where none does. As i64.
struct SequenceRuns {
  Value counts;
  Value sourceOffsets;
  Value offsets;
};
Value sequenceRows(GraphBuilder& b,
                   const SequenceRuns& runs,
                   std::int64_t sourceRows,
                   std::int64_t rows);
/// The first `length` steps of each sequence in reverse order.
Value reverseSequence(
    GraphBuilder& b, Value x, Value lengths, std::int64_t batchAxis = 1, std::int64_t timeAxis = 0);
/// data with updates where gatherElements would read; reduction: none, add, mul, max or min.
Value scatterElements(GraphBuilder& b,
                      Value data,
                      Value indices,
                      Value updates,
                      std::int64_t axis = 0,
                      std::string_view reduction = "none");
/// data with updates where gatherNd would read.
Value scatterNd(GraphBuilder& b,
                Value data,
                Value indices,
                Value updates,
                std::string_view reduction = "none",
                std::int64_t batchDims = 0);
struct TopKValues {
  Value values;
  Value indices;  ///< i64
};
/// The k largest (or smallest) elements in order; of equal ones the first comes first.
TopKValues topK(
    GraphBuilder& b, Value x, std::int64_t k, std::int64_t axis = -1, bool largest = true);

// Images: x is [batch, channels, height, width].
/// Channels become blocks of pixels; depthFirst: the block's rows and columns are the outer part
/// of the channel axis.
Value depthToSpace(GraphBuilder& b, Value x, std::int64_t blockSize, bool depthFirst = true);
Value spaceToDepth(GraphBuilder& b, Value x, std::int64_t blockSize);

struct ResizeOptions {
  std::vector<std::int64_t> sizes = {};  ///< of the result, one per axis
  std::vector<double> scales = {};       ///< none: sizes over extents
  std::string_view mode = "nearest";     ///< nearest, linear or cubic
  /// half_pixel, pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn or
  /// tf_crop_and_resize
  std::string_view coordinates = "half_pixel";
  /// round_prefer_floor, round_prefer_ceil, floor or ceil
  std::string_view nearest = "round_prefer_floor";
  double cubicCoefficient = -0.75;
  bool excludeOutside = false;      ///< weights of elements outside count for nothing
  std::vector<double> roi = {};     ///< tf_crop_and_resize: all starts, then all ends
  double extrapolationValue = 0.0;  ///< tf_crop_and_resize: outside of the region
};
/// Every axis whose extent changes is interpolated on its own; any rank.
Value resize(GraphBuilder& b, Value x, const ResizeOptions& options);
struct GridSampleOptions {
  std::string_view mode = "bilinear";  ///< bilinear, nearest or bicubic
  std::string_view padding = "zeros";  ///< zeros, border or reflection
  bool alignCorners = false;
};
/// grid [batch, rows, columns, 2] holds places (x, y) from -1 to 1.
Value gridSample(GraphBuilder& b, Value x, Value grid, const GridSampleOptions& options = {});
struct GridSampleGrads {
  Value x;
  Value grid;
};
GridSampleGrads gridSampleGrad(
    GraphBuilder& b, Value x, Value grid, Value dy, const GridSampleOptions& options = {});
struct RoiAlignOptions {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t samplingRatio = 0;  ///< samples per cell and axis; 0: by the region's size
  double spatialScale = 1.0;
  bool halfPixel = true;          ///< pixels have their centres at halves
  std::string_view mode = "avg";  ///< avg or max
};
/// Regions [count, 4] of (x1, y1, x2, y2) in the images that batchIndices name; the gradient passes
/// to x only.
Value roiAlign(
    GraphBuilder& b, Value x, Value regions, Value batchIndices, const RoiAlignOptions& options);
/// The gradient of x; x itself only tells where the maxima are.
Value roiAlignGrad(GraphBuilder& b,
                   Value x,
                   Value regions,
                   Value batchIndices,
                   Value dy,
                   const RoiAlignOptions& options);

// New tensors.
/// One value everywhere.
Value full(GraphBuilder& b, const TensorType& type, double value);
/// 0, 1, 2 ... along the axis.
Value iota(GraphBuilder& b, const TensorType& type, std::int64_t axis = 0);
/// A new axis that is 1 at the index and 0 elsewhere.
Value oneHot(GraphBuilder& b,
             Value indices,
             std::int64_t depth,
             DType dtype = DType::F32,
             std::int64_t axis = -1);

// Random numbers: each call takes a fresh ordinal, which fixes its stream (rule R6).
/// Zeros elements with probability p and scales the others by 1 / (1 - p).
Value dropout(GraphBuilder& b, Value x, double p);
Value randomNormal(GraphBuilder& b,
                   const TensorType& type,
                   double mean = 0.0,
                   double deviation = 1.0);
Value randomUniform(GraphBuilder& b, const TensorType& type, double low = 0.0, double high = 1.0);

// Linear algebra.
/// Of the last two axes.
Value det(GraphBuilder& b, Value x);
/// dy times the cofactors of x.
Value detGrad(GraphBuilder& b, Value x, Value dy);
/// The discrete Fourier transform of complex numbers (pairs in the last axis) along an axis; the
/// inverse divides by its extent.
Value dft(GraphBuilder& b, Value x, std::int64_t axis, bool inverse = false);
/// A sum of products by index letters, as NumPy's einsum: "ij,jk->ik".
Value einsum(GraphBuilder& b, std::string_view equation, std::vector<Value> operands);
struct MatMulOptions {
  bool transposeA = false;  ///< of the last two axes
  bool transposeB = false;
};
/// Any rank with broadcast batch axes, as NumPy's matmul.
Value matmul(GraphBuilder& b, Value x, Value y, MatMulOptions options = {});

// Convolution and pooling: x is [batch, channels, one to three spatial axes]. Pads are all the ones
// before, then all the ones after; empty lists mean no padding and strides and dilations of 1.
struct ConvOptions {
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> pads = {};
  std::vector<std::int64_t> dilations = {};
  std::int64_t groups = 1;
};
/// w is [out channels, channels / groups, kernel...].
Value conv(GraphBuilder& b, Value x, Value w, const ConvOptions& options = {});
Value convGradInput(
    GraphBuilder& b, Value w, Value dy, const Shape& inputShape, const ConvOptions& options = {});
Value convGradWeight(
    GraphBuilder& b, Value x, Value dy, const Shape& weightShape, const ConvOptions& options = {});
struct PoolOptions {
  std::vector<std::int64_t> kernel = {};
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> pads = {};
  std::vector<std::int64_t> dilations = {};  ///< max pooling only
  bool ceilMode = false;                     ///< a last, partial window counts
  bool countIncludePad = false;              ///< average pooling only
};
/// The maxima; output 1 of the op has their offsets inside the windows.
Value maxPool(GraphBuilder& b, Value x, const PoolOptions& options);
Value maxPoolGrad(
    GraphBuilder& b, Value indices, Value dy, const Shape& inputShape, const PoolOptions& options);
Value avgPool(GraphBuilder& b, Value x, const PoolOptions& options);
Value avgPoolGrad(GraphBuilder& b, Value dy, const Shape& inputShape, const PoolOptions& options);
/// The mean over all spatial axes, which stay with extent 1.
Value globalAvgPool(GraphBuilder& b, Value x);

// Normalization and softmax.
Value softmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value softmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis);
Value logSoftmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value logSoftmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis);
struct NormOptions {
  std::int64_t axis = -1;  ///< this axis and all behind it are normalized
  double epsilon = 1e-5;
};
/// Outputs 1 and 2 of the op are the mean and the reciprocal standard deviation.
Value layerNorm(GraphBuilder& b, Value x, Value gamma, Value beta, NormOptions options = {});
/// Output 1 of the op is the reciprocal root mean square.
Value rmsNorm(GraphBuilder& b, Value x, Value gamma, NormOptions options = {});
struct BatchNormValues {
  Value y;
  Value mean;
  Value variance;  ///< biased
};
/// Training form: by the batch's own statistics, per channel (axis 1).
BatchNormValues batchNorm(GraphBuilder& b, Value x, Value gamma, Value beta, double epsilon = 1e-5);

// Losses. Class scores are [batch, classes, ...], labels i32 or i64 [batch, ...].
enum class Reduction : std::uint8_t { Mean, Sum, None };
struct NllOptions {
  Reduction reduction = Reduction::Mean;
  std::int64_t ignoreIndex = -100;  ///< terms with this label count for nothing
};
Value nllLoss(GraphBuilder& b, Value logProbabilities, Value labels, NllOptions options = {});
Value nllLossGrad(
    GraphBuilder& b, Value labels, Value dy, std::int64_t classes, NllOptions options = {});
struct CrossEntropyOptions {
  Reduction reduction = Reduction::Mean;
  std::int64_t ignoreIndex = -100;
  double labelSmoothing = 0.0;
};
Value crossEntropy(GraphBuilder& b, Value logits, Value labels, CrossEntropyOptions options = {});
/// All i32 or i64.
struct CtcTargets {
  Value targets;        ///< [batch, labels]
  Value inputLengths;   ///< [batch], in time steps
  Value targetLengths;  ///< [batch], in labels
};
struct CtcOptions {
  Reduction reduction = Reduction::Mean;  ///< Mean: of the losses per label
  std::int64_t blank = 0;
  bool zeroInfinity = false;  ///< targets without any alignment cost nothing
};
/// logProbabilities are [steps, batch, classes].
Value ctcLoss(GraphBuilder& b,
              Value logProbabilities,
              const CtcTargets& targets,
              const CtcOptions& options = {});

// Composites: decomposed into the ops above where a device has no kernel of its own.
struct BatchNormInputs {
  Value gamma;
  Value beta;
  Value mean;
  Value variance;
};
/// Inference form: by given statistics, which are f32 (f64 for f64).
Value batchNormInference(GraphBuilder& b,
                         Value x,
                         const BatchNormInputs& inputs,
                         double epsilon = 1e-5);
Value groupNorm(
    GraphBuilder& b, Value x, Value gamma, Value beta, std::int64_t groups, double epsilon = 1e-5);

Value bceLoss(GraphBuilder& b,
              Value probability,
              Value target,
              Reduction reduction = Reduction::Mean);
Value bceWithLogitsLoss(GraphBuilder& b,
                        Value logit,
                        Value target,
                        Reduction reduction = Reduction::Mean);
Value identityLoss(GraphBuilder& b, Value x, Reduction reduction = Reduction::Mean);
Value l1Loss(GraphBuilder& b,
             Value prediction,
             Value target,
             Reduction reduction = Reduction::Mean);
Value mseLoss(GraphBuilder& b,
              Value prediction,
              Value target,
              Reduction reduction = Reduction::Mean);
struct AttentionOptions {
  Value mask = {};      ///< none, bool (true keeps) or float (added), broadcast to [.., L, S]
  double scale = 0.0;   ///< 0: 1 / sqrt(E)
  bool causal = false;  ///< query i sees keys 0 to i only
};
/// q [.., L, E], k [.., S, E], v [.., S, Ev] give [.., L, Ev].
Value scaledDotProductAttention(
    GraphBuilder& b, Value q, Value k, Value v, const AttentionOptions& options = {});

}  // namespace sluice::ops
