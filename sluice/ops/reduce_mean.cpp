// reduce_mean: the mean over some axes; NaN over nothing.
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

double elementsPerResult(const ir::OpView& op) {
  double count = 1;
  const std::vector<bool> reduced = reducedAxes(op);
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    count *= reduced[i] ? static_cast<double>(op.inputs[0].shape.dims()[i]) : 1.0;
  }
  return count;
}

std::vector<Value> grad(ir::GradContext& g) {
  // Scaled before it is spread: that is the smaller tensor.
  const double count = elementsPerResult(g.op);
  const Value share = g.b.scalar(g.op.inputs[0].dtype, count > 0 ? 1.0 / count : 0.0);
  return {expandReduced(g, mul(g.b, g.grad(), share))};
}

void reference(const ir::KernelArgs& args) {
  const double count = elementsPerResult(args.op);
  referenceReduce(
      args,
      [](auto) { return 0; },
      [](auto sum, auto x) { return sum + x; },
      [count](auto sum) { return static_cast<double>(sum) / count; });
}

constexpr ir::OnnxName kOnnx[] = {{"ReduceMean", 1}, {"ReduceMean", 11}};

}  // namespace

constinit const ir::OpDef kReduceMean{.name = "reduce_mean",
                                      .attrs = kReduceAttrs,
                                      .infer = inferReduceFloats,
                                      .grad = grad,
                                      .cost = costReduce,
                                      .reference = reference,
                                      .onnx = kOnnx};

Value reduceMean(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims) {
  return b.add(kReduceMean, {x}, {{"axes", std::move(axes)}, {"keepDims", keepDims}});
}

}  // namespace sluice::ops
