// sin: the sine of x in radians.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {mul(g.b, g.grad(), cos(g.b, g.input(0)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::sin(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Sin", 7}};

}  // namespace

constinit const ir::OpDef kSin{.name = "sin",
                               .infer = inferUnary<Accepts::Floating>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value sin(GraphBuilder& b, Value x) {
  return b.add(kSin, {x});
}

}  // namespace sluice::ops
