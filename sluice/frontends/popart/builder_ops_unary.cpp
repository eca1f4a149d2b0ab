// AiOnnx: functions of each element and activations.
#include "sluice/frontends/popart/builder.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice {

TensorId AiOnnx::abs(const TensorId& x) {
  return b_.make("Abs", [&] { return ops::abs(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::exp(const TensorId& x) {
  return b_.make("Exp", [&] { return ops::exp(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::log(const TensorId& x) {
  return b_.make("Log", [&] { return ops::log(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::neg(const TensorId& x) {
  return b_.make("Neg", [&] { return ops::neg(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::relu(const TensorId& x) {
  return b_.make("Relu", [&] { return ops::relu(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::sigmoid(const TensorId& x) {
  return b_.make("Sigmoid", [&] { return ops::sigmoid(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::sqrt(const TensorId& x) {
  return b_.make("Sqrt", [&] { return ops::sqrt(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::tanh(const TensorId& x) {
  return b_.make("Tanh", [&] { return ops::tanh(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::cast(const TensorId& x, DType to) {
  return b_.make("Cast", [&] { return ops::cast(b_.b_, b_.value(x), to); });
}

TensorId AiOnnx::clip(const TensorId& x, double min, double max) {
  return b_.make("Clip", [&] { return ops::clamp(b_.b_, b_.value(x), min, max); });
}

TensorId AiOnnx::identity(const TensorId& x) {
  return b_.make("Identity", [&] { return ops::identity(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::isinf(const TensorId& x, const IsInfOptions& options) {
  return one(
      "IsInf",
      {x},
      {{"detect_negative", options.detectNegative}, {"detect_positive", options.detectPositive}});
}

TensorId AiOnnx::celu(const TensorId& x, double alpha) {
  return one("Celu", {x}, {{"alpha", alpha}});
}

TensorId AiOnnx::elu(const TensorId& x, double alpha) {
  return one("Elu", {x}, {{"alpha", alpha}});
}

TensorId AiOnnx::hardsigmoid(const TensorId& x, double alpha, double beta) {
  return one("HardSigmoid", {x}, {{"alpha", alpha}, {"beta", beta}});
}

TensorId AiOnnx::leakyrelu(const TensorId& x, double alpha) {
  return one("LeakyRelu", {x}, {{"alpha", alpha}});
}

TensorId AiOnnx::selu(const TensorId& x, double alpha, double gamma) {
  return one("Selu", {x}, {{"alpha", alpha}, {"gamma", gamma}});
}

TensorId AiOnnx::shrink(const TensorId& x, double lambd, double bias) {
  return one("Shrink", {x}, {{"lambd", lambd}, {"bias", bias}});
}

TensorId AiOnnx::thresholdedrelu(const TensorId& x, double alpha) {
  return one("ThresholdedRelu", {x}, {{"alpha", alpha}});
}

}  // namespace sluice
