// relu: max(x, 0); NaN stays NaN. The gradient needs only the output.
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {reluGrad(g.b, g.output(0), g.grad())};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto value) {
    const auto x = static_cast<double>(value);
    return x < 0.0 ? 0.0 : x;
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Relu", 6}};

}  // namespace

constinit const ir::OpDef kRelu{.name = "relu",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .gradReads = {.outputs = 0b1},
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value relu(GraphBuilder& b, Value x) {
  return b.add(kRelu, {x});
}

}  // namespace sluice::ops
