// log_softmax_grad: dy - exp(y) * sum(dy) along one axis, from log_softmax's output y.
#include <cmath>

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
  const Value weighted = mul(b, exp(b, g.input(0)), g.grad());
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    grads[0] = neg(b, mul(b, weighted, reduceSum(b, g.input(1), {axis}, true)));
  }
  if (g.needs(1)) {
    grads[1] = add(b, g.grad(), neg(b, reduceSum(b, weighted, {axis}, true)));
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  referenceSoftmaxGrad(
      args,
      [](double /*y*/, double dy) { return dy; },
      [](double y, double dy, double sum) { return dy - std::exp(y) * sum; });
}

}  // namespace

constinit const ir::OpDef kLogSoftmaxGrad{.name = "log_softmax_grad",
                                          .minInputs = 2,
                                          .maxInputs = 2,
                                          .attrs = kSoftmaxAttrs,
                                          .infer = inferSoftmaxGrad,
                                          .grad = grad,
                                          .gradReads = {.inputs = 0b11},
                                          .cost = costPerInput<4>,
                                          .reference = reference};

Value logSoftmaxGrad(GraphBuilder& b, Value y, Value dy, std::int64_t axis) {
  return b.add(kLogSoftmaxGrad, {y, dy}, {{"axis", axis}});
}

}  // namespace sluice::ops
