// round: the nearest whole number, halves to the even one. Its gradient is zero.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& /*g*/) {
  return {Value()};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::nearbyint(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Round", 11}, {"Round", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kRound{.name = "round",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value round(GraphBuilder& b, Value x) {
  return b.add(kRound, {x});
}

}  // namespace sluice::ops
