// erfc: 1 - erf(x), with the digits of its small results.
#include <cmath>
#include <numbers>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  // erfc'(x) = -2 / sqrt(pi) exp(-x^2)
  const Value factor = g.b.scalar(g.op.inputs[0].dtype, -2.0 * std::numbers::inv_sqrtpi);
  const Value bell = exp(g.b, neg(g.b, square(g.b, g.input(0))));
  return {mul(g.b, g.grad(), mul(g.b, bell, factor))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::erfc(static_cast<double>(x)); });
}

}  // namespace

constinit const ir::OpDef kErfc{.name = "erfc",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise};

Value erfc(GraphBuilder& b, Value x) {
  return b.add(kErfc, {x});
}

}  // namespace sluice::ops
