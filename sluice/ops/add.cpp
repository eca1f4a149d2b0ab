// add: x + y with broadcasting.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {sumTo(g.b, g.grad(), g.op.inputs[0].shape), sumTo(g.b, g.grad(), g.op.inputs[1].shape)};
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return wrappedSum(x, y); });
}

constexpr ir::OnnxName kOnnx[] = {{"Add", 6}, {"Add", 7}};

}  // namespace

constinit const ir::OpDef kAdd{.name = "add",
                               .minInputs = 2,
                               .maxInputs = 2,
                               .infer = inferBinary<Accepts::Numeric>,
                               .grad = grad,
                               .reference = reference,
                               .traits = kElementwiseCommutative,
                               .onnx = kOnnx};

Value add(GraphBuilder& b, Value x, Value y) {
  return b.add(kAdd, {x, y});
}

}  // namespace sluice::ops
