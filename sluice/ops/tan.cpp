// tan: the tangent of x in radians.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  return {mul(g.b, g.grad(), add(g.b, square(g.b, g.output(0)), one))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::tan(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Tan", 7}};

}  // namespace

constinit const ir::OpDef kTan{.name = "tan",
                               .infer = inferUnary<Accepts::Floating>,
                               .grad = grad,
                               .gradReads = {.outputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value tan(GraphBuilder& b, Value x) {
  return b.add(kTan, {x});
}

}  // namespace sluice::ops
