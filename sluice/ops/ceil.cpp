// ceil: the smallest whole number not below x. Its gradient is zero.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& /*g*/) {
  return {Value()};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::ceil(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Ceil", 6}};

}  // namespace

constinit const ir::OpDef kCeil{.name = "ceil",
                                .infer = inferUnary<Accepts::Floating>,
                                .grad = grad,
                                .reference = reference,
                                .traits = kElementwise,
                                .onnx = kOnnx};

Value ceil(GraphBuilder& b, Value x) {
  return b.add(kCeil, {x});
}

}  // namespace sluice::ops
