// gelu: x Phi(x), Phi the standard normal distribution; `approximate` is none (by erf) or tanh.
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
  return inferUnary<Accepts::Floating>(op);
}

double byErf(double x) {
  return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
}

double byTanh(double x) {
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1.0 + std::tanh(scale * (x + 0.044715 * x * x * x)));
}

std::vector<Value> grad(ir::GradContext& g) {
  return {geluGrad(g.b, g.input(0), g.grad(), g.op.attrs.text("approximate"))};
}

void reference(const ir::KernelArgs& args) {
  const auto f = args.op.attrs.text("approximate") == "tanh" ? byTanh : byErf;
  referenceUnary(args, [f](auto x) { return f(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Gelu", 20}, {"Gelu", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kGelu{.name = "gelu",
                                .attrs = kAttrs,
                                .infer = infer,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value gelu(GraphBuilder& b, Value x, std::string_view approximate) {
  return b.add(kGelu, {x}, {{"approximate", approximate}});
}

}  // namespace sluice::ops
