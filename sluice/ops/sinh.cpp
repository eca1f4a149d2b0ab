// sinh: the hyperbolic sine.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {mul(g.b, g.grad(), cosh(g.b, g.input(0)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::sinh(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Sinh", 9}};

}  // namespace

constinit const ir::OpDef kSinh{.name = "sinh",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value sinh(GraphBuilder& b, Value x) {
  return b.add(kSinh, {x});
}

}  // namespace sluice::ops
