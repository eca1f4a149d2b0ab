// reciprocal: 1 / x.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {neg(g.b, mul(g.b, g.grad(), square(g.b, g.output(0))))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto value) {
    const auto x = static_cast<double>(value);
    return 1.0 / x;
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Reciprocal", 6}};

}  // namespace

constinit const ir::OpDef kReciprocal{.name = "reciprocal",
                                      .infer = inferUnary<Accepts::Floating>,
                                      .grad = grad,
                                      .gradReads = {.outputs = 0b1},
                                      .reference = reference,
                                      .traits = kElementwise,
                                      .onnx = kOnnx};

Value reciprocal(GraphBuilder& b, Value x) {
  return b.add(kReciprocal, {x});
}

}  // namespace sluice::ops
