// softplus: log(1 + exp(x)), without overflow.
#include <cmath>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {mul(g.b, g.grad(), sigmoid(g.b, g.input(0)))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto value) {
    const auto x = static_cast<double>(value);
    return (x > 0.0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x)));
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Softplus", 1}};

}  // namespace

constinit const ir::OpDef kSoftplus{.name = "softplus",
                                    .infer = inferUnary<Accepts::Floating>,
                                    .grad = grad,
                                    .gradReads = {.inputs = 0b1},
                                    .reference = reference,
                                    .traits = kElementwise,
                                    .onnx = kOnnx};

Value softplus(GraphBuilder& b, Value x) {
  return b.add(kSoftplus, {x});
}

}  // namespace sluice::ops
