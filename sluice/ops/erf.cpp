// erf: the error function.
#include <cmath>
#include <numbers>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  // erf'(x) = 2 / sqrt(pi) exp(-x^2)
  const Value factor = g.b.scalar(g.op.inputs[0].dtype, 2.0 * std::numbers::inv_sqrtpi);
  const Value bell = exp(g.b, neg(g.b, square(g.b, g.input(0))));
  return {mul(g.b, g.grad(), mul(g.b, bell, factor))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::erf(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Erf", 9}};

}  // namespace

constinit const ir::OpDef kErf{.name = "erf",
                               .infer = inferUnary<Accepts::Floating>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value erf(GraphBuilder& b, Value x) {
  return b.add(kErf, {x});
}

}  // namespace sluice::ops
