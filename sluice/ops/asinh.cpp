// asinh: the number whose hyperbolic sine is x.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  const Value slope = rsqrt(g.b, add(g.b, square(g.b, g.input(0)), one));
  return {mul(g.b, g.grad(), slope)};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::asinh(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Asinh", 9}};

}  // namespace

constinit const ir::OpDef kAsinh{.name = "asinh",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .gradReads = {.inputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value asinh(GraphBuilder& b, Value x) {
  return b.add(kAsinh, {x});
}

}  // namespace sluice::ops
