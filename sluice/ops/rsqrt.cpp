// rsqrt: 1 / sqrt(x).
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  // d x^(-1/2) = -1/2 y^3 dx
  const Value y = g.output(0);
  const Value scaled = mul(g.b, mul(g.b, g.grad(), g.b.scalar(g.op.inputs[0].dtype, -0.5)), y);
  return {mul(g.b, scaled, square(g.b, y))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto value) {
    const auto x = static_cast<double>(value);
    return 1.0 / std::sqrt(x);
  });
}

}  // namespace

constinit const ir::OpDef kRsqrt{.name = "rsqrt",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .gradReads = {.outputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise};

Value rsqrt(GraphBuilder& b, Value x) {
  return b.add(kRsqrt, {x});
}

}  // namespace sluice::ops
