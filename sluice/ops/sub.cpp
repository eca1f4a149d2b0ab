// sub: x - y with broadcasting.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  Value second;
  if (g.needs(1)) {
    second = neg(g.b, sumTo(g.b, g.grad(), g.op.inputs[1].shape));
  }
  return {sumTo(g.b, g.grad(), g.op.inputs[0].shape), second};
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return wrappedDifference(x, y); });
}

constexpr ir::OnnxName kOnnx[] = {{"Sub", 6}, {"Sub", 7}};

}  // namespace

constinit const ir::OpDef kSub{.name = "sub",
                               .minInputs = 2,
                               .maxInputs = 2,
                               .infer = inferBinary<Accepts::Numeric>,
                               .grad = grad,
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value sub(GraphBuilder& b, Value x, Value y) {
  return b.add(kSub, {x, y});
}

}  // namespace sluice::ops
