// neg: -x.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {neg(g.b, g.grad())};
}

void reference(const ir::KernelArgs& args) {
  referenceUnary(args, [](auto x) { return wrappedNegative(x); });
}

constexpr ir::OnnxName kOnnx[] = {{"Neg", 6}};

}  // namespace

constinit const ir::OpDef kNeg{.name = "neg",
                               .infer = inferUnary<Accepts::Numeric>,
                               .grad = grad,
                               .reference = reference,
                               .traits = kElementwise,
                               .onnx = kOnnx};

Value neg(GraphBuilder& b, Value x) {
  return b.add(kNeg, {x});
}

}  // namespace sluice::ops
