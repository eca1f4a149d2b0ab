// atanh: the number whose hyperbolic tangent is x; NaN outside of [-1, 1].
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  const Value x = g.input(0);
  return {div(g.b, g.grad(), mul(g.b, sub(g.b, one, x), add(g.b, one, x)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::atanh(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Atanh", 9}};

}  // namespace

constinit const ir::OpDef kAtanh{.name = "atanh",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .gradReads = {.inputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value atanh(GraphBuilder& b, Value x) {
  return b.add(kAtanh, {x});
}

}  // namespace sluice::ops
