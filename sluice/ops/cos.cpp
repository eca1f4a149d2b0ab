// cos: the cosine of x in radians.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {neg(g.b, mul(g.b, g.grad(), sin(g.b, g.input(0))))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::cos(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Cos", 7}};

}  // namespace

constinit const ir::OpDef kCos{.name = "cos",
                               .infer = inferUnary<Accepts::Floating>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value cos(GraphBuilder& b, Value x) {
  return b.add(kCos, {x});
}

}  // namespace sluice::ops
