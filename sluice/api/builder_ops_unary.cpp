// AiOnnx: functions of each element and activations.
#include "sluice/api/builder.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice {

TensorId AiOnnx::abs(const TensorId& x) {
  return b_.make("Abs", [&] { return ops::abs(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::acos(const TensorId& x) {
  return one("Acos", {x});
}

TensorId AiOnnx::acosh(const TensorId& x) {
  return one("Acosh", {x});
}

TensorId AiOnnx::asin(const TensorId& x) {
  return one("Asin", {x});
}

TensorId AiOnnx::asinh(const TensorId& x) {
  return one("Asinh", {x});
}

TensorId AiOnnx::atan(const TensorId& x) {
  return one("Atan", {x});
}

TensorId AiOnnx::atanh(const TensorId& x) {
  return one("Atanh", {x});
}

TensorId AiOnnx::cast(const TensorId& x, DType to) {
  return b_.make("Cast", [&] { return ops::cast(b_.b_, b_.value(x), to); });
}

TensorId AiOnnx::castlike(const TensorId& x, const TensorId& y) {
  return one("CastLike", {x, y});
}

TensorId AiOnnx::ceil(const TensorId& x) {
  return one("Ceil", {x});
}

TensorId AiOnnx::clip(const TensorId& x, double min, double max) {
  return b_.make("Clip", [&] { return ops::clamp(b_.b_, b_.value(x), min, max); });
}

TensorId AiOnnx::cos(const TensorId& x) {
  return one("Cos", {x});
}

TensorId AiOnnx::cosh(const TensorId& x) {
  return one("Cosh", {x});
}

TensorId AiOnnx::erf(const TensorId& x) {
  return one("Erf", {x});
}

TensorId AiOnnx::exp(const TensorId& x) {
  return b_.make("Exp", [&] { return ops::exp(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::floor(const TensorId& x) {
  return one("Floor", {x});
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

TensorId AiOnnx::isnan(const TensorId& x) {
  return one("IsNaN", {x});
}

TensorId AiOnnx::log(const TensorId& x) {
  return b_.make("Log", [&] { return ops::log(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::logical_not(const TensorId& x) {
  return one("Not", {x});
}

TensorId AiOnnx::neg(const TensorId& x) {
  return b_.make("Neg", [&] { return ops::neg(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::reciprocal(const TensorId& x) {
  return one("Reciprocal", {x});
}

TensorId AiOnnx::round(const TensorId& x) {
  return one("Round", {x});
}

TensorId AiOnnx::sign(const TensorId& x) {
  return one("Sign", {x});
}

TensorId AiOnnx::sin(const TensorId& x) {
  return one("Sin", {x});
}

TensorId AiOnnx::sinh(const TensorId& x) {
  return one("Sinh", {x});
}

TensorId AiOnnx::sqrt(const TensorId& x) {
  return b_.make("Sqrt", [&] { return ops::sqrt(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::tan(const TensorId& x) {
  return one("Tan", {x});
}

TensorId AiOnnx::tanh(const TensorId& x) {
  return b_.make("Tanh", [&] { return ops::tanh(b_.b_, b_.value(x)); });
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

TensorId AiOnnx::hardswish(const TensorId& x) {
  return one("HardSwish", {x});
}

TensorId AiOnnx::leakyrelu(const TensorId& x, double alpha) {
  return one("LeakyRelu", {x}, {{"alpha", alpha}});
}

TensorId AiOnnx::prelu(const TensorId& x, const TensorId& slope) {
  return one("PRelu", {x, slope});
}

TensorId AiOnnx::relu(const TensorId& x) {
  return b_.make("Relu", [&] { return ops::relu(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::selu(const TensorId& x) {
  return one("Selu", {x});
}

TensorId AiOnnx::selu(const TensorId& x, double alpha, double gamma) {
  return one("Selu", {x}, {{"alpha", alpha}, {"gamma", gamma}});
}

TensorId AiOnnx::shrink(const TensorId& x, double lambd, double bias) {
  return one("Shrink", {x}, {{"lambd", lambd}, {"bias", bias}});
}

TensorId AiOnnx::sigmoid(const TensorId& x) {
  return b_.make("Sigmoid", [&] { return ops::sigmoid(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::softplus(const TensorId& x) {
  return one("Softplus", {x});
}

TensorId AiOnnx::softsign(const TensorId& x) {
  return one("Softsign", {x});
}

TensorId AiOnnx::thresholdedrelu(const TensorId& x, double alpha) {
  return one("ThresholdedRelu", {x}, {{"alpha", alpha}});
}

}  // namespace sluice
