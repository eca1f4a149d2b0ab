// hardmax: 1 at the largest element along an axis, the first of equal ones, and 0 elsewhere.
#include <array>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "axis", .kind = ir::AttrKind::Int, .integer = -1}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  axisAttr(op, op.inputs[0].shape);  // checks it
  return inferUnary<Accepts::Numeric>(op);
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const std::int64_t axis = op.integer("axis");
  const Shape& shape = op.inputs[0].shape;
  const Value at = argMax(b, inputs[0], axis);
  return {oneHot(b, at, shape[axisAttr(op, shape)], op.inputs[0].dtype, axis)};
}

constexpr ir::OnnxName kOnnx[] = {{"Hardmax", 13}};

}  // namespace

constinit const ir::OpDef kHardmax{
    .name = "hardmax", .attrs = kAttrs, .infer = infer, .decompose = decompose, .onnx = kOnnx};

Value hardmax(GraphBuilder& b, Value x, std::int64_t axis) {
  return b.add(kHardmax, {x}, {{"axis", axis}});
}

}  // namespace sluice::ops
