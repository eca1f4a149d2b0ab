// cross_entropy_grad: the gradient of the scores from (scores, labels, logarithms of the sums, dy).
// With p = exp(score - logarithm) it is p - (1 - s) * [class = label] - s / classes, times dy and
// divided as the reduction says; 0 for terms that are ignored.
#include <algorithm>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/cross_entropy.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  nllDims(op, op.inputs[0].shape, op.inputs[1]);
  smoothingOf(op);
  const DType dtype = op.inputs[0].dtype;
  const Shape& terms = op.inputs[1].shape;
  requireType(op, 2, "the logarithm of the sums", {statisticsType(dtype), terms});
  requireType(op, 3, "the output gradient", reducedType(op, {lossType(op), terms}));
  return {op.inputs[0]};
}

/// The log-probabilities once more, as the parts of the forward op have them.
std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = lossType(op);
  const std::int64_t classes = op.inputs[0].shape[1];
  const double smoothing = smoothingOf(op);
  const NllOptions options{.reduction = reductionOf(op), .ignoreIndex = op.integer("ignoreIndex")};
  Value slopes = nllLossGrad(b, inputs[1], inputs[3], classes, options);
  if (smoothing > 0) {
    const auto count = static_cast<double>(std::max<std::int64_t>(classes, 1));
    const Value spread =
        mul(b, reduceSum(b, slopes, {1}, true), b.scalar(dtype, smoothing / count));
    slopes = add(b, mul(b, slopes, b.scalar(dtype, 1.0 - smoothing)), spread);
  }
  const Value scores = cast(b, inputs[0], dtype);
  return {cast(b, logSoftmaxGrad(b, logSoftmax(b, scores, 1), slopes, 1), op.inputs[0].dtype)};
}

}  // namespace

constinit const ir::OpDef kCrossEntropyGrad{.name = "cross_entropy_grad",
                                            .minInputs = 4,
                                            .maxInputs = 4,
                                            .attrs = kCrossEntropyAttrs,
                                            .infer = infer,
                                            .cost = costPerInput<4>,
                                            .decompose = decompose};

}  // namespace sluice::ops
