// cross_entropy: log_softmax over axis 1, then nll_loss. Label smoothing s mixes each term with the
// mean over the classes: (1 - s) * logp[label] + s * mean(logp), the same as smoothed targets.
#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {kReductionAttr, kIgnoreIndexAttr, {.name = "labelSmoothing", .kind = ir::AttrKind::Real}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  nllDims(op, op.inputs[0].shape, op.inputs[1]);
  const double smoothing = op.attrs.real("labelSmoothing");
  if (!(smoothing >= 0.0 && smoothing <= 1.0)) {
    raise<InvalidArgument>("cross_entropy: labelSmoothing must be from 0 to 1, got {}", smoothing);
  }
  return {reducedType(op, {op.inputs[0].dtype, op.inputs[1].shape})};
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const double smoothing = op.attrs.real("labelSmoothing");
  Value logp = logSoftmax(b, inputs[0], 1);
  if (smoothing > 0) {
    const auto classes = static_cast<double>(std::max<std::int64_t>(op.inputs[0].shape[1], 1));
    const Value spread =
        mul(b, reduceSum(b, logp, {1}, true), b.scalar(dtype, smoothing / classes));
    logp = add(b, mul(b, logp, b.scalar(dtype, 1.0 - smoothing)), spread);
  }
  return {nllLoss(b,
                  logp,
                  inputs[1],
                  {.reduction = reductionOf(op), .ignoreIndex = op.integer("ignoreIndex")})};
}

constexpr ir::OnnxName kOnnx[] = {{"SoftmaxCrossEntropyLoss", 12}, {"SoftmaxCrossEntropyLoss", 13}};

}  // namespace

constinit const ir::OpDef kCrossEntropy{.name = "cross_entropy",
                                        .minInputs = 2,
                                        .maxInputs = 2,
                                        .attrs = kAttrs,
                                        .infer = infer,
                                        .decompose = decompose,
                                        .traits = {.loss = true},
                                        .onnx = kOnnx};

Value crossEntropy(GraphBuilder& b, Value logits, Value labels, CrossEntropyOptions options) {
  return b.add(kCrossEntropy,
               {logits, labels},
               {{"reduction", name(options.reduction)},
                {"ignoreIndex", options.ignoreIndex},
                {"labelSmoothing", options.labelSmoothing}});
}

}  // namespace sluice::ops
