// gelu_grad: dy times the derivative of gelu at x. One op, because the derivative is a long formula
// of one element.
#include <array>
#include <cmath>
#include <numbers>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "approximate", .kind = ir::AttrKind::Text, .text = "none"}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireOneOf(op, "approximate", {"none", "tanh"});
  return inferSame<Accepts::Floating>(op);
}

/// Phi(x) + x phi(x)
double slopeByErf(double x) {
  const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2)) + x * density;
}

double slopeByTanh(double x) {
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  const double inner = scale * (1.0 + 3.0 * 0.044715 * x * x);
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
}

void reference(const ir::KernelArgs& args) {
  const auto slope = args.op.attrs.text("approximate") == "tanh" ? slopeByTanh : slopeByErf;
  referenceBinary(args, [slope](auto x, auto dy) {
    return slope(static_cast<double>(x)) * static_cast<double>(dy);
  });
}

/// slopeByErf and slopeByTanh in ops.
std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Value x = inputs[0];
  const auto number = [&](double value) { return b.scalar(op.inputs[0].dtype, value); };
  const auto half = [&](Value sum) { return mul(b, number(0.5), add(b, number(1.0), sum)); };
  const Value squared = square(b, x);
  if (op.attrs.text("approximate") == "none") {
    const double top = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const Value density = mul(b, number(top), exp(b, mul(b, number(-0.5), squared)));
    const Value share = half(erf(b, div(b, x, number(std::numbers::sqrt2))));
    return {mul(b, inputs[1], add(b, share, mul(b, x, density)))};
  }
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const auto line = [&](double factor) {
    return mul(b, number(scale), add(b, number(1.0), mul(b, number(factor), squared)));
  };
  const Value t = tanh(b, mul(b, x, line(0.044715)));
  const Value bent = mul(b, sub(b, number(1.0), square(b, t)), line(3.0 * 0.044715));
  const Value slope = add(b, half(t), mul(b, mul(b, number(0.5), x), bent));
  return {mul(b, inputs[1], slope)};
}

}  // namespace

constinit const ir::OpDef kGeluGrad{.name = "gelu_grad",
                                    .minInputs = 2,
                                    .maxInputs = 2,
                                    .attrs = kAttrs,
                                    .infer = infer,
                                    .reference = reference,
                                    .decompose = decompose,
                                    .traits = kElementwise};

Value geluGrad(GraphBuilder& b, Value x, Value dy, std::string_view approximate) {
  return b.add(kGeluGrad, {x, dy}, {{"approximate", approximate}});
}

}  // namespace sluice::ops
