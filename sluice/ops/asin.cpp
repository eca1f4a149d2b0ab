// asin: the angle in [-pi/2, pi/2] whose sine is x; NaN outside of [-1, 1].
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  const Value x = g.input(0);
  const Value slope = rsqrt(g.b, mul(g.b, sub(g.b, one, x), add(g.b, one, x)));
  return {mul(g.b, g.grad(), slope)};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::asin(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Asin", 7}};

}  // namespace

constinit const ir::OpDef kAsin{.name = "asin",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value asin(GraphBuilder& b, Value x) {
  return b.add(kAsin, {x});
}

}  // namespace sluice::ops
