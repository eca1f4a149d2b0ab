// is_inf: whether x is infinite, as bool; either sign can be left out.
#include <array>
#include <limits>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "detect_negative", .kind = ir::AttrKind::Bool, .integer = 1},
     {.name = "detect_positive", .kind = ir::AttrKind::Bool, .integer = 1}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  return {{DType::Bool, op.inputs[0].shape}};
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const DType dtype = op.inputs[0].dtype;
  const bool negative = op.attrs.flag("detect_negative");
  const bool positive = op.attrs.flag("detect_positive");
  if (!negative && !positive) {
    return {full(b, {DType::Bool, op.inputs[0].shape}, 0.0)};
  }
  const Value x = negative && positive ? abs(b, inputs[0]) : inputs[0];
  return {equal(b, x, b.scalar(dtype, positive ? kInfinity : -kInfinity))};
}

constexpr ir::OnnxName kOnnx[] = {{"IsInf", 10}};

}  // namespace

constinit const ir::OpDef kIsInf{
    .name = "is_inf", .attrs = kAttrs, .infer = infer, .decompose = decompose, .onnx = kOnnx};

Value isInf(GraphBuilder& b, Value x, bool negative, bool positive) {
  return b.add(kIsInf, {x}, {{"detect_negative", negative}, {"detect_positive", positive}});
}

}  // namespace sluice::ops
