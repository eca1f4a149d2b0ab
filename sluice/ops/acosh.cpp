// acosh: the number that is not negative whose hyperbolic cosine is x; NaN below 1.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  const Value x = g.input(0);
  const Value slope = rsqrt(g.b, mul(g.b, sub(g.b, x, one), add(g.b, x, one)));
  return {mul(g.b, g.grad(), slope)};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::acosh(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Acosh", 9}};

}  // namespace

constinit const ir::OpDef kAcosh{.name = "acosh",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .gradReads = {.inputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value acosh(GraphBuilder& b, Value x) {
  return b.add(kAcosh, {x});
}

}  // namespace sluice::ops
