// sigmoid: 1 / (1 + exp(-x)).
#include <cmath>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value y = g.output(0);
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  return {mul(g.b, g.grad(), mul(g.b, y, sub(g.b, one, y)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto value) {
    const auto x = static_cast<double>(value);
    return 1.0 / (1.0 + std::exp(-x));
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Sigmoid", 6}};

}  // namespace

constinit const ir::OpDef kSigmoid{.name = "sigmoid",
                                   .infer = inferUnary<Accepts::Floating>,
                                   .grad = grad,
                                   .gradReads = {.outputs = 0b1},
                                   .reference = reference,
                                   .traits = kElementwise,
                                   .onnx = kOnnx};

Value sigmoid(GraphBuilder& b, Value x) {
  return b.add(kSigmoid, {x});
}

}  // namespace sluice::ops
