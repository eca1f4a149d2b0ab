// atan: the angle in [-pi/2, pi/2] whose tangent is x.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  return {div(g.b, g.grad(), add(g.b, square(g.b, g.input(0)), one))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::atan(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Atan", 7}};

}  // namespace

constinit const ir::OpDef kAtan{.name = "atan",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value atan(GraphBuilder& b, Value x) {
  return b.add(kAtan, {x});
}

}  // namespace sluice::ops
