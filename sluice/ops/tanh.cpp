// tanh: the hyperbolic tangent.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  return {mul(g.b, g.grad(), sub(g.b, one, square(g.b, g.output(0))))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::tanh(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Tanh", 6}};

}  // namespace

constinit const ir::OpDef kTanh{.name = "tanh",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.outputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value tanh(GraphBuilder& b, Value x) {
  return b.add(kTanh, {x});
}

}  // namespace sluice::ops
