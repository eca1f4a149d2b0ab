// Softmax, normalization, attention, dropout and the losses of functional.h.
#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::nn {
namespace {

using ir::GraphBuilder;
using ir::Value;
using Loss = Value (*)(GraphBuilder&, Value, Value, Reduction);

Tensor loss(std::string_view name,
            Loss op,
            const Tensor& prediction,
            const Tensor& wanted,
            Reduction reduction) {
  const auto [x, target] = operands(name, prediction, wanted);
  GraphBuilder& b = x.builder();
  return {target.builder(), op(b, x.value(), target.value(), reduction)};
}

/// The value, once it is known to belong to the current trace.
Value checked(const Tensor& x) {
  x.builder();
  return x.value();
}

}  // namespace

Tensor softmax(const Tensor& given, std::int64_t axis) {
  const Tensor x = operand("softmax", given);
  GraphBuilder& b = x.builder();
  return {b, ops::softmax(b, x.value(), axis)};
}

Tensor logSoftmax(const Tensor& given, std::int64_t axis) {
  const Tensor x = operand("log_softmax", given);
  GraphBuilder& b = x.builder();
  return {b, ops::logSoftmax(b, x.value(), axis)};
}

Tensor dropout(const Tensor& given, double p, bool training) {
  if (!(p >= 0.0 && p < 1.0)) {
    raise<InvalidArgument>("dropout: the probability is {}, expected a number in [0, 1)", p);
  }
  if (!training || !Tracer::current().training() || p == 0.0) {
    return given;
  }
  const Tensor x = operand("dropout", given);
  GraphBuilder& b = x.builder();
  return {b, ops::dropout(b, x.value(), p)};
}

Tensor layerNorm(const Tensor& input, const Tensor& scale, const Tensor& offset, double eps) {
  const auto [x, weight, bias] = operands("layer_norm", input, scale, offset);
  GraphBuilder& b = x.builder();
  const ops::NormOptions options{.axis = -weight.shape().rank(), .epsilon = eps};
  return {b, ops::layerNorm(b, x.value(), weight.value(), checked(bias), options)};
}

Tensor rmsNorm(const Tensor& input, const Tensor& scale, double eps) {
  const auto [x, weight] = operands("rms_norm", input, scale);
  GraphBuilder& b = x.builder();
  const ops::NormOptions options{.axis = -weight.shape().rank(), .epsilon = eps};
  return {b, ops::rmsNorm(b, x.value(), weight.value(), options)};
}

Tensor groupNorm(const Tensor& input,
                 const Tensor& scale,
                 const Tensor& offset,
                 std::int64_t groups,
                 double eps) {
  const auto [x, weight, bias] = operands("group_norm", input, scale, offset);
  GraphBuilder& b = x.builder();
  return {b, ops::groupNorm(b, x.value(), checked(weight), checked(bias), groups, eps)};
}

BatchNormResult batchNorm(const Tensor& input,
                          const Tensor& scale,
                          const Tensor& offset,
                          double eps) {
  const auto [x, weight, bias] = operands("batch_norm", input, scale, offset);
  GraphBuilder& b = x.builder();
  const ops::BatchNormValues values =
      ops::batchNorm(b, x.value(), checked(weight), checked(bias), eps);
  return {{b, values.y}, {b, values.mean}, {b, values.variance}};
}

Tensor batchNorm(const Tensor& input,
                 const Tensor& scale,
                 const Tensor& offset,
                 const ChannelStatistics& statistics,
                 double eps) {
  const auto [x, weight, bias] = operands("batch_norm", input, scale, offset);
  GraphBuilder& b = x.builder();
  const DType wide = ops::statisticsType(x.dtype());
  return {b,
          ops::batchNormInference(b,
                                  x.value(),
                                  {.gamma = checked(weight),
                                   .beta = checked(bias),
                                   .mean = ops::cast(b, checked(statistics.mean), wide),
                                   .variance = ops::cast(b, checked(statistics.variance), wide)},
                                  eps)};
}

Tensor scaledDotProductAttention(const Tensor& queries,
                                 const Tensor& keys,
                                 const Tensor& values,
                                 const AttentionOptions& options) {
  const auto [q, k, v, mask] =
      operands("scaled_dot_product_attention", queries, keys, values, options.mask);
  if (options.scale && !(*options.scale > 0.0)) {
    raise<InvalidArgument>("attention: the scale is {}, expected a number above 0", *options.scale);
  }
  GraphBuilder& b = q.builder();
  const ops::AttentionOptions given{.mask = mask.defined() ? checked(mask) : Value(),
                                    .scale = options.scale.value_or(0.0),
                                    .causal = options.causal};
  return {b, ops::scaledDotProductAttention(b, q.value(), checked(k), checked(v), given)};
}

Tensor crossEntropy(const Tensor& scores, const Tensor& labels, CrossEntropyOptions options) {
  const Tensor logits = operand("cross_entropy", scores);
  GraphBuilder& b = logits.builder();
  return {labels.builder(), ops::crossEntropy(b, logits.value(), labels.value(), options)};
}

Tensor nllLoss(const Tensor& scores, const Tensor& labels, NllOptions options) {
  const Tensor logProbabilities = operand("nll_loss", scores);
  GraphBuilder& b = logProbabilities.builder();
  return {labels.builder(), ops::nllLoss(b, logProbabilities.value(), labels.value(), options)};
}

Tensor mseLoss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return loss("mse_loss", ops::mseLoss, x, target, reduction);
}

Tensor l1Loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return loss("l1_loss", ops::l1Loss, x, target, reduction);
}

Tensor bceLoss(const Tensor& p, const Tensor& target, Reduction reduction) {
  return loss("binary_cross_entropy", ops::bceLoss, p, target, reduction);
}

Tensor bceWithLogits(const Tensor& x, const Tensor& target, Reduction reduction) {
  return loss("binary_cross_entropy_with_logits", ops::bceWithLogitsLoss, x, target, reduction);
}

CtcDecoded ctcBeamSearchDecoder(const Tensor& logProbabilities,
                                const Tensor& lengths,
                                const CtcDecoderOptions& options) {
  GraphBuilder& b = logProbabilities.builder();
  const ops::CtcDecoded decoded =
      ops::ctcBeamSearchDecoder(b, logProbabilities.value(), lengths.value(), options);
  return {.probabilities = {b, decoded.probabilities},
          .lengths = {b, decoded.lengths},
          .paths = {lengths.builder(), decoded.paths}};
}

Tensor printTensor(const Tensor& x, const PrintOptions& options) {
  return {x.builder(), ops::printTensor(x.builder(), x.value(), options)};
}

}  // namespace sluice::nn
