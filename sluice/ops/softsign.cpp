// softsign: x / (1 + |x|).
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Value one = b.scalar(op.inputs[0].dtype, 1.0);
  return {div(b, inputs[0], add(b, abs(b, inputs[0]), one))};
}

constexpr ir::OnnxName kOnnx[] = {{"Softsign", 1}};

}  // namespace

constinit const ir::OpDef kSoftsign{.name = "softsign",
                                    .infer = inferUnary<Accepts::Floating>,
                                    .decompose = decompose,
                                    .onnx = kOnnx};

Value softsign(GraphBuilder& b, Value x) {
  return b.add(kSoftsign, {x});
}

}  // namespace sluice::ops
