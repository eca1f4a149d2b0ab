// softmax_grad: y * (dy - sum(y * dy)) along one axis, from softmax's output y.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/softmax_reference.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  GraphBuilder& b = g.b;
  const std::int64_t axis = g.op.integer("axis");
  const Value y = g.input(0);
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    const Value dy = g.input(1);
    const auto along = [&](Value v) { return reduceSum(b, mul(b, y, v), {axis}, true); };
    const Value direct = mul(b, g.grad(), add(b, dy, neg(b, along(dy))));
    grads[0] = add(b, direct, neg(b, mul(b, dy, along(g.grad()))));
  }
  if (g.needs(1)) {
    grads[1] = softmaxGrad(b, y, g.grad(), axis);
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceSoftmaxGrad(
      args,
      [](double y, double dy) { return y * dy; },
      [](double y, double dy, double sum) { return y * (dy - sum); });
}

}  // namespace

constinit const ir::OpDef kSoftmaxGrad{.name = "softmax_grad",
                                       .minInputs = 2,
                                       .maxInputs = 2,
                                       .attrs = kSoftmaxAttrs,
                                       .infer = inferSoftmaxGrad,
                                       .grad = grad,
                                       .gradReads = {.inputs = 0b11},
                                       .cost = costPerInput<4>,
                                       .reference = reference};

Value softmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis) {
  return b.add(kSoftmaxGrad, {y, dy}, {{"axis", axis}});
}

}  // namespace sluice::ops
