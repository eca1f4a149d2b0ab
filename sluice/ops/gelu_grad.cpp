// gelu_grad: dy times the derivative of gelu at x. One op, because the derivative is a long formula
// of one element.
#include <array>
#include <cmath>
#include <numbers>

#include "sluice/ops/activation_ops.h"
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

}  // namespace

constinit const ir::OpDef kGeluGrad{.name = "gelu_grad",
                                    .minInputs = 2,
                                    .maxInputs = 2,
                                    .attrs = kAttrs,
                                    .infer = infer,
                                    .reference = reference,
                                    .traits = kElementwise};

Value geluGrad(GraphBuilder& b, Value x, Value dy, std::string_view approximate) {
  return b.add(kGeluGrad, {x, dy}, {{"approximate", approximate}});
}

}  // namespace sluice::ops
