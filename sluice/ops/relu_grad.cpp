// relu_grad: dy where relu's output y is above 0, else 0.
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {Value(), g.needs(1) ? reluGrad(g.b, g.input(0), g.grad()) : Value()};
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto y, auto dy) { return y > decltype(y){} ? dy : decltype(dy){}; });
}

}  // namespace

constinit const ir::OpDef kReluGrad{.name = "relu_grad",
                                    .minInputs = 2,
                                    .maxInputs = 2,
                                    .infer = inferSame<Accepts::Floating>,
                                    .grad = grad,
                                    .gradReads = {.inputs = 0b1},
                                    .reference = reference,
                                    .traits = kElementwise};

Value reluGrad(GraphBuilder& b, Value y, Value dy) {
  return b.add(kReluGrad, {y, dy});
}

}  // namespace sluice::ops
