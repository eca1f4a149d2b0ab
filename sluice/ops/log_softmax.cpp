// log_softmax: x - log(sum(exp(x))) along one axis, shifted by the maximum so that it cannot
// overflow.
#include <cmath>

#include "sluice/ops/cost.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/softmax_reference.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {logSoftmaxGrad(g.b, g.output(0), g.grad(), g.op.integer("axis"))};
}

void reference(const ir::KernelArgs& args) {
  referenceSoftmax(args, [](double x, double sum) { return x - std::log(sum); });
}

constexpr ir::OnnxName kOnnx[] = {{"LogSoftmax", 1}, {"LogSoftmax", 11}, {"LogSoftmax", 13}};

}  // namespace

constinit const ir::OpDef kLogSoftmax{.name = "log_softmax",
                                      .attrs = kSoftmaxAttrs,
                                      .infer = inferSoftmax,
                                      .grad = grad,
                                      .gradReads = {.outputs = 0b1},
                                      .cost = costPerInput<5>,
                                      .reference = reference,
                                      .onnx = kOnnx};

Value logSoftmax(GraphBuilder& b, Value x, std::int64_t axis) {
  return b.add(kLogSoftmax, {x}, {{"axis", axis}});
}

}  // namespace sluice::ops
