// cosh: the hyperbolic cosine.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {mul(g.b, g.grad(), sinh(g.b, g.input(0)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::cosh(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Cosh", 9}};

}  // namespace

constinit const ir::OpDef kCosh{.name = "cosh",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.inputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value cosh(GraphBuilder& b, Value x) {
  return b.add(kCosh, {x});
}

}  // namespace sluice::ops
