// acos: the angle in [0, pi] whose cosine is x; NaN outside of [-1, 1].
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  const Value x = g.input(0);
  const Value slope = rsqrt(g.b, mul(g.b, sub(g.b, one, x), add(g.b, one, x)));
  return {neg(g.b, mul(g.b, g.grad(), slope))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::acos(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Acos", 7}};

}  // namespace

constinit const ir::OpDef kAcos{.name = "acos",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value acos(GraphBuilder& b, Value x) {
  return b.add(kAcos, {x});
}

}  // namespace sluice::ops
