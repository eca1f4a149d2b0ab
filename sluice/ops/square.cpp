// square: x * x.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  const Value two = g.b.scalar(g.op.inputs[0].dtype, 2.0);
  return {mul(g.b, g.grad(), mul(g.b, g.input(0), two))};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return wrappedProduct(x, x); });
}

constexpr ir::OnnxName kOnnx[] = {{"Square", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kSquare{.name = "square",
                                  .infer = inferUnary<Accepts::Numeric>,
                                  .grad = grad,
                                  .gradReads = {.inputs = 0b1},
                                  .reference = reference,
                                  .traits = kElementwise,
                                  .onnx = kOnnx};

Value square(GraphBuilder& b, Value x) {
  return b.add(kSquare, {x});
}

}  // namespace sluice::ops
