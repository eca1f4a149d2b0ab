// reduce_sum: the sum over some axes.
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {expandReduced(g, g.grad())};
}

void reference(const ir::KernelArgs& args) {
  referenceReduce(
      args, [](auto) { return 0; }, [](auto sum, auto x) { return wrappedSum(sum, x); });
}

constexpr ir::OnnxName kOnnx[] = {{"ReduceSum", 1}, {"ReduceSum", 11}};

}  // namespace

constinit const ir::OpDef kReduceSum{.name = "reduce_sum",
                                     .attrs = kReduceAttrs,
                                     .infer = inferReduce,
                                     .grad = grad,
                                     .cost = costReduce,
                                     .reference = reference,
                                     .onnx = kOnnx};

Value reduceSum(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims) {
  return b.add(kReduceSum, {x}, {{"axes", std::move(axes)}, {"keepDims", keepDims}});
}

Value sumTo(GraphBuilder& b, Value x, const Shape& shape) {
  const Shape from = b.shape(x);
  if (from == shape) {
    return x;
  }
  const std::int64_t extra = from.rank() - shape.rank();
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 0; i < from.rank(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && from[i] != 1)) {
      axes.push_back(i);
    }
  }
  return reshape(b, reduceSum(b, x, std::move(axes), true), shape);
}

}  // namespace sluice::ops
