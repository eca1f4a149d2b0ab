// log: the natural logarithm.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {div(g.b, g.grad(), g.input(0))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::log(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Log", 6}};

}  // namespace

constinit const ir::OpDef kLog{.name = "log",
                               .infer = inferUnary<Accepts::Floating>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b1},
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value log(GraphBuilder& b, Value x) {
  return b.add(kLog, {x});
}

}  // namespace sluice::ops
