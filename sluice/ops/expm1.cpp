// expm1: exp(x) - 1, exact for small x.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  return {mul(g.b, g.grad(), add(g.b, g.output(0), one))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::expm1(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Expm1", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kExpm1{.name = "expm1",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .gradReads = {.outputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value expm1(GraphBuilder& b, Value x) {
  return b.add(kExpm1, {x});
}

}  // namespace sluice::ops
