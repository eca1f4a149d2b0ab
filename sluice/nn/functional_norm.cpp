// Softmax, normalization, attention, dropout and the losses of functional.h.
#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/activation_ops.h"
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

/// Whether dropout does anything here.
bool drops(double p, bool training) {
  if (!(p >= 0.0 && p < 1.0)) {
    raise<InvalidArgument>("dropout: the probability is {}, expected a number in [0, 1)", p);
  }
  return training && Tracer::current().training() && p != 0.0;
}

Tensor channelDropout(const Tensor& given, double p, bool training, std::int64_t axes) {
  if (given.rank() != axes + 2) {
    raise<InvalidArgument>(
        "dropout{}d: expected [batch, channels, {} more], got {}", axes, axes, given.type().str());
  }
  if (!drops(p, training)) {
    return given;
  }
  const Tensor x = operand("dropout", given);
  Extents dims(static_cast<std::size_t>(x.rank()), 1);
  dims[0] = x.shape(0);
  dims[1] = x.shape(1);
  GraphBuilder& b = x.builder();
  return {b, ops::shapedDropout(b, x.value(), Shape(std::move(dims)), p)};
}

/// A loss by element, reduced.
Tensor reducedLoss(const Tensor& terms, Reduction reduction) {
  switch (reduction) {
    case Reduction::Mean:
      return mean(terms);
    case Reduction::Sum:
      return sum(terms);
    case Reduction::None:
      break;
  }
  return terms;
}

/// Half of the squared error up to the limit, and from there on its tangent.
Tensor huberTerms(const Tensor& x, const Tensor& target, double limit) {
  const Tensor error = abs(x - target);
  const Tensor inside = minimum(error, limit);
  return inside * (error - inside * 0.5);
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

Tensor softmin(const Tensor& x, std::int64_t axis) {
  return softmax(neg(operand("softmin", x)), axis);
}

Tensor hardmax(const Tensor& x, std::int64_t axis) {
  GraphBuilder& b = x.builder();
  return {b, ops::hardmax(b, x.value(), axis)};
}

Tensor normalize(const Tensor& given, std::int64_t axis, double eps) {
  const Tensor x = operand("normalize", given);
  return x / maximum(norm(x, {axis}, true), eps);
}

Tensor cosineSimilarity(const Tensor& left, const Tensor& right, std::int64_t axis, double eps) {
  const auto [x, y] = operands("cosine_similarity", left, right);
  const Tensor product = sum(x * y, {axis});
  return product / (maximum(norm(x, {axis}), eps) * maximum(norm(y, {axis}), eps));
}

Tensor dropout(const Tensor& given, double p, bool training) {
  if (!drops(p, training)) {
    return given;
  }
  const Tensor x = operand("dropout", given);
  GraphBuilder& b = x.builder();
  return {b, ops::dropout(b, x.value(), p)};
}

Tensor dropout1d(const Tensor& x, double p, bool training) {
  return channelDropout(x, p, training, 1);
}

Tensor dropout2d(const Tensor& x, double p, bool training) {
  return channelDropout(x, p, training, 2);
}

Tensor dropout3d(const Tensor& x, double p, bool training) {
  return channelDropout(x, p, training, 3);
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

Tensor instanceNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  if (x.rank() < 3) {
    raise<InvalidArgument>("instanceNorm: expected [batch, channels, more axes], got {}",
                           x.type().str());
  }
  const Shape channels{x.shape(1)};
  return groupNorm(x,
                   weight.defined() ? weight : ones(channels, x.dtype()),
                   bias.defined() ? bias : zeros(channels, x.dtype()),
                   x.shape(1),
                   eps);
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

Tensor smoothL1Loss(const Tensor& prediction,
                    const Tensor& wanted,
                    double beta,
                    Reduction reduction) {
  if (!(beta >= 0.0)) {
    raise<InvalidArgument>("smoothL1Loss: beta is {}, expected 0 or more", beta);
  }
  if (beta == 0.0) {
    return l1Loss(prediction, wanted, reduction);
  }
  const auto [x, target] = operands("smooth_l1_loss", prediction, wanted);
  return reducedLoss(huberTerms(x, target, beta) * (1.0 / beta), reduction);
}

Tensor huberLoss(const Tensor& prediction,
                 const Tensor& wanted,
                 double delta,
                 Reduction reduction) {
  if (!(delta > 0.0)) {
    raise<InvalidArgument>("huberLoss: delta is {}, expected a number above 0", delta);
  }
  const auto [x, target] = operands("huber_loss", prediction, wanted);
  return reducedLoss(huberTerms(x, target, delta), reduction);
}

Tensor klDiv(const Tensor& prediction, const Tensor& wanted, const KlDivOptions& options) {
  const auto [x, target] = operands("kl_div", prediction, wanted);
  // 0 log 0 is 0: the logarithm is taken of 1 there.
  const Tensor terms =
      options.logTarget ? exp(target) * (target - x)
                        : target * (log(where(greater(target, 0.0), target, onesLike(target))) - x);
  if (options.batchMean) {
    return sum(terms) / static_cast<double>(x.shape(0));
  }
  return reducedLoss(terms, options.reduction);
}

Tensor ctcLoss(const Tensor& scores,
               const Tensor& targets,
               const CtcLengths& lengths,
               const CtcOptions& options) {
  const Tensor x = operand("ctc_loss", scores);
  const ops::CtcTargets given{.targets = checked(targets),
                              .inputLengths = checked(lengths.input),
                              .targetLengths = checked(lengths.target)};
  return {x.builder(), ops::ctcLoss(x.builder(), x.value(), given, options)};
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
