// thresholded_relu: x where it is above alpha, else 0.
#include <array>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "alpha", .kind = ir::AttrKind::Real, .real = 1.0}}};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Value above = greater(b, inputs[0], b.scalar(dtype, op.attrs.real("alpha")));
  return {where(b, above, inputs[0], b.scalar(dtype, 0.0))};
}

constexpr ir::OnnxName kOnnx[] = {{"ThresholdedRelu", 10}};

}  // namespace

constinit const ir::OpDef kThresholdedRelu{.name = "thresholded_relu",
                                           .attrs = kAttrs,
                                           .infer = inferUnary<Accepts::Floating>,
                                           .decompose = decompose,
                                           .onnx = kOnnx};

Value thresholdedRelu(GraphBuilder& b, Value x, double alpha) {
  return b.add(kThresholdedRelu, {x}, {{"alpha", alpha}});
}

}  // namespace sluice::ops
