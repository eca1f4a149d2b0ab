// cross_entropy: log_softmax over axis 1, then nll_loss. Label smoothing s mixes each term with the
// mean over the classes: (1 - s) * logp[label] + s * mean(logp), the same as smoothed targets. The
// second result is the logarithm of the sum of each term's exponentials, from which the gradient
// computes the probabilities again. With wideLoss 16-bit scores give a float32 loss.
#include "sluice/ops/cross_entropy.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
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
  return {reducedType(op, {lossType(op), op.inputs[1].shape}),
          {statisticsType(op.inputs[0].dtype), op.inputs[1].shape}};
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = lossType(op);
  const double smoothing = smoothingOf(op);
  Value logp = logSoftmax(b, cast(b, inputs[0], dtype), 1);
  if (smoothing > 0) {
    const auto classes = static_cast<double>(std::max<std::int64_t>(op.inputs[0].shape[1], 1));
    const Value spread =
        mul(b, reduceSum(b, logp, {1}, true), b.scalar(dtype, smoothing / classes));
    logp = add(b, mul(b, logp, b.scalar(dtype, 1.0 - smoothing)), spread);
  }
  const Value loss = nllLoss(
      b, logp, inputs[1], {.reduction = reductionOf(op), .ignoreIndex = op.integer("ignoreIndex")});
  return {loss, reduceLogSumExp(b, cast(b, inputs[0], statisticsType(op.inputs[0].dtype)), {1})};
}

std::vector<Value> grad(ir::GradContext& g) {
  GraphBuilder& b = g.b;
  std::vector<Value> grads(2);
  if (g.grad(0).valid()) {
    grads[0] = b.add(kCrossEntropyGrad,
                     {g.input(0), g.input(1), g.output(1), g.grad(0)},
                     {{"reduction", g.op.attrs.text("reduction")},
                      {"ignoreIndex", g.op.integer("ignoreIndex")},
                      {"labelSmoothing", smoothingOf(g.op)},
                      {"wideLoss", g.op.attrs.flag("wideLoss")}});
  }
  if (g.grad(1).valid()) {
    std::vector<std::int64_t> dims = g.op.inputs[1].shape.dims();
    dims.insert(dims.begin() + 1, 1);
    const Value slopes =
        reshape(b, cast(b, g.grad(1), g.op.inputs[0].dtype), Shape(std::move(dims)));
    grads[0] = addIfAny(b, grads[0], mul(b, softmax(b, g.input(0), 1), slopes));
  }
  return grads;
}

constexpr ir::OnnxName kOnnx[] = {{"SoftmaxCrossEntropyLoss", 12}, {"SoftmaxCrossEntropyLoss", 13}};

}  // namespace

DType lossType(const ir::OpView& op) {
  const DType dtype = op.inputs[0].dtype;
  return op.attrs.flag("wideLoss") ? statisticsType(dtype) : dtype;
}

double smoothingOf(const ir::OpView& op) {
  const double smoothing = op.attrs.real("labelSmoothing");
  if (!(smoothing >= 0.0 && smoothing <= 1.0)) {
    raise<InvalidArgument>(
        "{}: labelSmoothing must be from 0 to 1, got {}", op.def.name, smoothing);
  }
  return smoothing;
}

constinit const ir::OpDef kCrossEntropy{.name = "cross_entropy",
                                        .minInputs = 2,
                                        .maxInputs = 2,
                                        .outputs = 2,
                                        .attrs = kCrossEntropyAttrs,
                                        .infer = infer,
                                        .grad = grad,
                                        .gradReads = {.inputs = 0b11, .outputs = 0b10},
                                        .cost = costPerInput<4>,
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
