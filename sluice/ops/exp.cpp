// exp: e to the power of x.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {mul(g.b, g.grad(), g.output(0))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::exp(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Exp", 6}};

}  // namespace

constinit const ir::OpDef kExp{.name = "exp",
                               .infer = inferUnary<Accepts::Floating>,
                               .grad = grad,
                               .gradReads = {.outputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value exp(GraphBuilder& b, Value x) {
  return b.add(kExp, {x});
}

}  // namespace sluice::ops
