// reduce_log_sum_exp: log(sum(exp(x))) over some axes, without overflow; -infinity over nothing.
#include <limits>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

double largestFinite(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return 65504.0;
    case DType::BF16:
      return 0x1.FEp127;
    case DType::F32:
      return static_cast<double>(std::numeric_limits<float>::max());
    default:
      return std::numeric_limits<double>::max();
  }
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const std::vector<std::int64_t>& axes = op.attrs.integers("axes");
  const double limit = largestFinite(op.inputs[0].dtype);
  // A maximum that is infinite would give infinity - infinity.
  const Value largest = clamp(b, detach(b, reduceMax(b, inputs[0], axes, true)), -limit, limit);
  const Value sums = reduceSum(b, exp(b, sub(b, inputs[0], largest)), axes, true);
  return {reshape(b, add(b, log(b, sums), largest), op.outputs[0].shape)};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Shape kept = keptShape(g.op);
  const Value softmax = exp(g.b, sub(g.b, g.input(0), reshape(g.b, g.output(0), kept)));
  return {mul(g.b, softmax, reshape(g.b, g.grad(), kept))};
}

ir::Cost cost(const ir::OpView& op) {
  ir::Cost cost = costReduce(op);
  cost.flops *= 4;  // maximum, difference, exponential, sum
  return cost;
}

constexpr ir::OnnxName kOnnx[] = {{"ReduceLogSumExp", 1}, {"ReduceLogSumExp", 11}};

}  // namespace

constinit const ir::OpDef kReduceLogSumExp{.name = "reduce_log_sum_exp",
                                           .attrs = kReduceAttrs,
                                           .infer = inferReduceFloats,
                                           .grad = grad,
                                           .gradReads = {.inputs = 0b1, .outputs = 0b1},
                                           .cost = cost,
                                           .decompose = decompose,
                                           .onnx = kOnnx};

Value reduceLogSumExp(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims) {
  return b.add(kReduceLogSumExp, {x}, {{"axes", std::move(axes)}, {"keepDims", keepDims}});
}

}  // namespace sluice::ops
