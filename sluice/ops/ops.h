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
Value mul(GraphBuilder& b, Value x, Value y);

// Element-wise, one operand.
Value exp(GraphBuilder& b, Value x);
Value neg(GraphBuilder& b, Value x);

// Reductions. Empty axes: all. Negative axes count from the end.
Value reduceSum(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims = false);
/// Sums a broadcast result back to `shape` (identity when it already has it).
Value sumTo(GraphBuilder& b, Value x, const Shape& shape);

// Shape.
Value reshape(GraphBuilder& b, Value x, const Shape& shape);
/// Empty permutation: reverses the axes.
Value transpose(GraphBuilder& b, Value x, std::vector<std::int64_t> permutation = {});
Value broadcastTo(GraphBuilder& b, Value x, const Shape& shape);

// Linear algebra.
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

// Normalization and softmax.
Value softmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value softmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis);
Value logSoftmax(GraphBuilder& b, Value x, std::int64_t axis = -1);
Value logSoftmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis);

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

}  // namespace sluice::ops
