// sqrt: the square root.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value half = g.b.scalar(g.op.inputs[0].dtype, 0.5);
  return {div(g.b, mul(g.b, g.grad(), half), g.output(0))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::sqrt(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Sqrt", 6}};

}  // namespace

constinit const ir::OpDef kSqrt{.name = "sqrt",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.outputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value sqrt(GraphBuilder& b, Value x) {
  return b.add(kSqrt, {x});
}

}  // namespace sluice::ops
