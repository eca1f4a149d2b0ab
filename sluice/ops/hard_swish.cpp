// hard_swish: x times x / 6 + 1/2 limited to [0, 1].
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Value scaled = mul(b, inputs[0], b.scalar(dtype, 1.0 / 6.0));
  return {mul(b, inputs[0], clamp(b, add(b, scaled, b.scalar(dtype, 0.5)), 0.0, 1.0))};
}

constexpr ir::OnnxName kOnnx[] = {{"HardSwish", 14}};

}  // namespace

constinit const ir::OpDef kHardSwish{.name = "hard_swish",
                                     .infer = inferUnary<Accepts::Floating>,
                                     .decompose = decompose,
                                     .onnx = kOnnx};

Value hardSwish(GraphBuilder& b, Value x) {
  return b.add(kHardSwish, {x});
}

}  // namespace sluice::ops
