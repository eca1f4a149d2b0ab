// floor: the largest whole number not above x. Its gradient is zero.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& /*g*/) {
  return {Value()};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return std::floor(static_cast<double>(x)); });
}

constexpr ir::OnnxName kOnnx[] = {{"Floor", 6}};

}  // namespace

constinit const ir::OpDef kFloor{.name = "floor",
                                 .infer = inferUnary<Accepts::Floating>,
                                 .grad = grad,
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value floor(GraphBuilder& b, Value x) {
  return b.add(kFloor, {x});
}

}  // namespace sluice::ops
