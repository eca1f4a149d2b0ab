// reduce_prod: the product over some axes; 1 over nothing.
#include "sluice/ops/integer_math.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {reduceProdGrad(g.b, g.input(0), g.grad(), g.op.attrs.integers("axes"))};
}

void reference(const ir::KernelArgs& args) {
  referenceReduce(
      args,
      [](auto) { return 1; },
      [](auto product, auto x) { return wrappedProduct(product, x); });
}

constexpr ir::OnnxName kOnnx[] = {{"ReduceProd", 1}, {"ReduceProd", 11}};

}  // namespace

constinit const ir::OpDef kReduceProd{.name = "reduce_prod",
                                      .attrs = kReduceAttrs,
                                      .infer = inferReduce,
                                      .grad = grad,
                                      .gradReads = {.inputs = 0b1},
                                      .cost = costReduce,
                                      .reference = reference,
                                      .onnx = kOnnx};

Value reduceProd(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims) {
  return b.add(kReduceProd, {x}, {{"axes", std::move(axes)}, {"keepDims", keepDims}});
}

}  // namespace sluice::ops
