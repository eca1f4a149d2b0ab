// prelu: x where it is not negative, else slope x; the slope is broadcast to x.
#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  std::vector<TensorType> types = inferBroadcast(op, Accepts::Numeric);
  if (types[0] != op.inputs[0]) {
    raise<InvalidArgument>(
        "prelu: a slope of {} cannot be broadcast to {}", op.inputs[1].str(), op.inputs[0].str());
  }
  return types;
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Value negative = less(b, inputs[0], b.scalar(op.inputs[0].dtype, 0.0));
  return {where(b, negative, mul(b, inputs[0], inputs[1]), inputs[0])};
}

constexpr ir::OnnxName kOnnx[] = {{"PRelu", 1}, {"PRelu", 6}, {"PRelu", 7}, {"PRelu", 9}};

}  // namespace

constinit const ir::OpDef kPrelu{.name = "prelu",
                                 .minInputs = 2,
                                 .maxInputs = 2,
                                 .infer = infer,
                                 .decompose = decompose,
                                 .onnx = kOnnx};

Value prelu(GraphBuilder& b, Value x, Value slope) {
  return b.add(kPrelu, {x, slope});
}

}  // namespace sluice::ops
