// log1p: log(1 + x), exact for small x.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value one = g.b.scalar(g.op.inputs[0].dtype, 1.0);
  return {div(g.b, g.grad(), add(g.b, g.input(0), one))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::log1p(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Log1p", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kLog1p{.name = "log1p",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .gradReads = {.inputs = 0b1},
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value log1p(GraphBuilder& b, Value x) {
  return b.add(kLog1p, {x});
}

}  // namespace sluice::ops
