// AiOnnx: pooling, normalization and losses.
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice {
namespace {

std::vector<ir::NamedAttr> lossAttrs(const LossOptions& options) {
  std::vector<ir::NamedAttr> attrs = {{"reduction", ops::name(options.reduction)}};
  if (options.ignoreIndex) {
    attrs.emplace_back("ignore_index", *options.ignoreIndex);
  }
  return attrs;
}

}  // namespace

TensorId AiOnnx::averagepool(const TensorId& x, const ops::PoolOptions& options) {
  return b_.make("AveragePool", [&] { return ops::avgPool(b_.b_, b_.value(x), options); });
}

TensorId AiOnnx::globalaveragepool(const TensorId& x) {
  return b_.make("GlobalAveragePool", [&] { return ops::globalAvgPool(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::globallppool(const TensorId& x, std::int64_t p) {
  return one("GlobalLpPool", {x}, {{"p", p}});
}

TensorId AiOnnx::lppool(const TensorId& x, const ops::PoolOptions& options, std::int64_t p) {
  return one("LpPool",
             {x},
             given({{"kernel_shape", options.kernel},
                    {"strides", options.strides},
                    {"pads", options.pads},
                    {"p", p}}));
}

TensorId AiOnnx::maxpool(const TensorId& x, const ops::PoolOptions& options) {
  return b_.make("MaxPool", [&] { return ops::maxPool(b_.b_, b_.value(x), options); });
}

AiOnnx::Ids AiOnnx::maxpool(const TensorId& x,
                            const ops::PoolOptions& options,
                            std::size_t outputs) {
  return node("MaxPool",
              {x},
              given({{"kernel_shape", options.kernel},
                     {"strides", options.strides},
                     {"pads", options.pads},
                     {"dilations", options.dilations},
                     {"ceil_mode", options.ceilMode}}),
              outputs);
}

TensorId AiOnnx::maxunpool(const TensorId& x,
                           const TensorId& indices,
                           const ops::PoolOptions& options,
                           const Ints& outputShape) {
  return one("MaxUnpool",
             {x, indices, outputShape.empty() ? OpOperand() : OpOperand(outputShape)},
             given({{"kernel_shape", options.kernel},
                    {"strides", options.strides},
                    {"pads", options.pads}}));
}

TensorId AiOnnx::batchnormalization(const TensorId& x,
                                    const BatchNormTensors& tensors,
                                    double epsilon) {
  return b_.make("BatchNormalization", [&] {
    return ops::batchNormInference(b_.b_,
                                   b_.value(x),
                                   {.gamma = b_.value(tensors.scale),
                                    .beta = b_.value(tensors.bias),
                                    .mean = b_.value(tensors.mean),
                                    .variance = b_.value(tensors.variance)},
                                   epsilon);
  });
}

TensorId AiOnnx::hardmax(const TensorId& x, std::int64_t axis) {
  return one("Hardmax", {x}, {{"axis", axis}});
}

TensorId AiOnnx::instancenormalization(const TensorId& x,
                                       const TensorId& scale,
                                       const TensorId& bias,
                                       double epsilon) {
  return one("InstanceNormalization", {x, scale, bias}, {{"epsilon", epsilon}});
}

TensorId AiOnnx::layernormalization(const TensorId& x,
                                    const TensorId& scale,
                                    const TensorId& bias,
                                    const LayerNormOptions& options) {
  return one("LayerNormalization",
             {x, scale, bias},
             {{"axis", options.axis}, {"epsilon", options.epsilon}});
}

TensorId AiOnnx::logsoftmax(const TensorId& x, std::int64_t axis) {
  return b_.make("LogSoftmax", [&] { return ops::logSoftmax(b_.b_, b_.value(x), axis); });
}

TensorId AiOnnx::lpnormalization(const TensorId& x, std::int64_t axis, std::int64_t p) {
  return one("LpNormalization", {x}, {{"axis", axis}, {"p", p}});
}

TensorId AiOnnx::lrn(const TensorId& x, std::int64_t size, const LrnOptions& options) {
  return one(
      "LRN",
      {x},
      {{"size", size}, {"alpha", options.alpha}, {"beta", options.beta}, {"bias", options.bias}});
}

TensorId AiOnnx::meanvariancenormalization(const TensorId& x, const Ints& axes) {
  return one("MeanVarianceNormalization", {x}, {{"axes", axes}});
}

TensorId AiOnnx::negativeloglikelihoodloss(const TensorId& logProbabilities,
                                           const TensorId& labels,
                                           const LossOptions& options) {
  return one(
      "NegativeLogLikelihoodLoss", {logProbabilities, labels, options.weight}, lossAttrs(options));
}

TensorId AiOnnx::softmax(const TensorId& x, std::int64_t axis) {
  return b_.make("Softmax", [&] { return ops::softmax(b_.b_, b_.value(x), axis); });
}

TensorId AiOnnx::softmaxcrossentropyloss(const TensorId& scores,
                                         const TensorId& labels,
                                         const LossOptions& options) {
  return one("SoftmaxCrossEntropyLoss", {scores, labels, options.weight}, lossAttrs(options));
}

}  // namespace sluice
