// atan2: the angle in [-pi, pi] of the point (x, y) with broadcasting; y is the first operand.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value y = g.input(0);
  const Value x = g.input(1);
  const Value norm = add(g.b, square(g.b, y), square(g.b, x));
  const Value scaled = div(g.b, g.grad(), norm);
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = sumTo(g.b, mul(g.b, scaled, x), g.op.inputs[0].shape);
  }
  if (g.needs(1)) {
    grads[1] = neg(g.b, sumTo(g.b, mul(g.b, scaled, y), g.op.inputs[1].shape));
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto y, auto x) {
    return std::atan2(static_cast<double>(y), static_cast<double>(x));
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Atan2", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kAtan2{.name = "atan2",
                                 .minInputs = 2,
                                 .maxInputs = 2,
                                 .infer = inferBinary<Accepts::Floating>,
                                 .grad = grad,
                                 .gradReads = {.inputs = 0b11},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value atan2(GraphBuilder& b, Value y, Value x) {
  return b.add(kAtan2, {y, x});
}

}  // namespace sluice::ops
