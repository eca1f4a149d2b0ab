// silu: x sigmoid(x), also known as swish.
#include <cmath>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  // With s = sigmoid(x) the slope is s (1 + x (1 - s)).
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  const Value s = sigmoid(g.b, g.input(0));
  const Value rest = mul(g.b, g.input(0), sub(g.b, one, s));
  return {mul(g.b, g.grad(), mul(g.b, s, add(g.b, rest, one)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto value) {
    const auto x = static_cast<double>(value);
    return x / (1.0 + std::exp(-x));
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Swish", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kSilu{.name = "silu",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value silu(GraphBuilder& b, Value x) {
  return b.add(kSilu, {x});
}

}  // namespace sluice::ops
