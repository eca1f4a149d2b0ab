// reduce_min: the smallest element over some axes; NaN if there is one, the highest value of the
// type over nothing. Equal extremes share the gradient equally.
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {gradOfExtreme(g)};
}

void reference(const ir::KernelArgs& args) {
  referenceReduce(
      args,
      []<class T>(T) { return highestOf<T>(); },
      [](auto best, auto x) {
        return !notANumber(best) && (notANumber(x) || x < best) ? x : best;
      });
}

constexpr ir::OnnxName kOnnx[] = {{"ReduceMin", 1}, {"ReduceMin", 11}};

}  // namespace

constinit const ir::OpDef kReduceMin{.name = "reduce_min",
                                     .attrs = kReduceAttrs,
                                     .infer = inferReduce,
                                     .grad = grad,
                                     .gradReads = {.inputs = 0b1, .outputs = 0b1},
                                     .cost = costReduce,
                                     .reference = reference,
                                     .onnx = kOnnx};

Value reduceMin(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims) {
  return b.add(kReduceMin, {x}, {{"axes", std::move(axes)}, {"keepDims", keepDims}});
}

}  // namespace sluice::ops
