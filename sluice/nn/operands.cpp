#include "sluice/nn/operands.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sluice/base/error.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::nn {
namespace {

bool has(std::span<const Tensor> operands, DType dtype) {
  return std::ranges::any_of(
      operands, [dtype](const Tensor& x) { return x.defined() && x.dtype() == dtype; });
}

/// The 16-bit type that meets float32 among the operands, if there is one, and only one.
std::optional<DType> mixedHalf(std::span<const Tensor> operands) {
  const bool half = has(operands, DType::F16);
  const bool brain = has(operands, DType::BF16);
  if (!has(operands, DType::F32) || half == brain) {
    return std::nullopt;
  }
  return half ? DType::F16 : DType::BF16;
}

void castTo(DType dtype, std::span<Tensor> operands) {
  for (Tensor& x : operands) {
    if (x.defined() && (isHalf(x.dtype()) || x.dtype() == DType::F32)) {
      x = {x.builder(), ops::cast(x.builder(), x.value(), dtype)};
    }
  }
}

void autocast(const Policy& policy, AutocastRule rule, std::span<Tensor> operands) {
  const bool mixed = mixedHalf(operands).has_value();
  switch (rule) {
    case AutocastRule::None:
      break;
    case AutocastRule::Half:
      castTo(policy.half, operands);
      break;
    case AutocastRule::Float:
      castTo(DType::F32, operands);
      break;
    case AutocastRule::Promote:
      if (mixed) {
        castTo(DType::F32, operands);
      }
      break;
    case AutocastRule::Demote:
      if (mixed) {
        castTo(policy.half, operands);
      }
      break;
  }
}

}  // namespace

void resolveTypes(std::string_view function, std::span<Tensor> operands) {
  const Tracer& tracer = Tracer::current();
  const PrecisionSettings& settings = tracer.precision();
  if (tracer.autocasts()) {
    autocast(settings.autocastPolicy,
             ruleOf(settings.autocastPolicy, function, tracer.layerKind()),
             operands);
  }
  if (const std::optional<DType> half = mixedHalf(operands)) {
    const bool up = settings.halfFloatCasting == HalfFloatCasting::HalfUpcastToFloat;
    castTo(up ? DType::F32 : *half, operands);
  }
}

Tensor numberLike(const Tensor& x, double number) {
  ir::GraphBuilder& b = x.builder();
  const DType dtype = x.dtype();
  const bool whole = std::isfinite(number) && number == std::trunc(number);
  const bool fits =
      isFloat(dtype) || (whole && (dtype != DType::Bool || std::abs(number - 0.5) < 1));
  if (!fits) {
    raise<InvalidArgument>(
        "the number {} meets a tensor {}, which cannot hold it: cast the tensor to a float type "
        "first",
        number,
        x.type().str());
  }
  return {b, b.scalar(dtype, number)};
}

std::vector<ir::Value> valuesOf(const std::vector<Tensor>& tensors) {
  std::vector<ir::Value> values;
  for (const Tensor& tensor : tensors) {
    tensor.builder();  // checks that it belongs here
    values.push_back(tensor.value());
  }
  return values;
}

std::vector<Tensor> tensorsOf(ir::GraphBuilder& b, const std::vector<ir::Value>& values) {
  std::vector<Tensor> tensors;
  tensors.reserve(values.size());
  for (const ir::Value value : values) {
    tensors.emplace_back(b, value);
  }
  return tensors;
}

}  // namespace sluice::nn
