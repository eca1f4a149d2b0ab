// mul: x * y with broadcasting.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  std::vector<Value> grads(2);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (g.needs(i)) {
      grads[i] = sumTo(g.b, mul(g.b, g.grad(), g.input(1 - i)), g.op.inputs[i].shape);
    }
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return wrappedProduct(x, y); });
}

constexpr ir::OnnxName kOnnx[] = {{"Mul", 6}, {"Mul", 7}};

}  // namespace

constinit const ir::OpDef kMul{.name = "mul",
                               .minInputs = 2,
                               .maxInputs = 2,
                               .infer = inferBinary<Accepts::Numeric>,
                               .grad = grad,
                               .gradReads = {.inputs = 0b11},
                               .reference = reference,
                               .traits = kElementwiseCommutative,
                               .onnx = kOnnx};

Value mul(GraphBuilder& b, Value x, Value y) {
  return b.add(kMul, {x, y});
}

}  // namespace sluice::ops
