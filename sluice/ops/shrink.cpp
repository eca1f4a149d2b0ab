// shrink: x drawn towards 0 by bias where it is beyond lambd, else 0.
#include <array>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "lambd", .kind = ir::AttrKind::Real, .real = 0.5},
     {.name = "bias", .kind = ir::AttrKind::Real, .real = 0.0}}};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Value x = inputs[0];
  const double limit = op.attrs.real("lambd");
  const Value bias = b.scalar(dtype, op.attrs.real("bias"));
  const Value zero = b.scalar(dtype, 0.0);
  const Value above = where(b, greater(b, x, b.scalar(dtype, limit)), sub(b, x, bias), zero);
  return {where(b, less(b, x, b.scalar(dtype, -limit)), add(b, x, bias), above)};
}

constexpr ir::OnnxName kOnnx[] = {{"Shrink", 9}};

}  // namespace

constinit const ir::OpDef kShrink{.name = "shrink",
                                  .attrs = kAttrs,
                                  .infer = inferUnary<Accepts::Numeric>,
                                  .decompose = decompose,
                                  .onnx = kOnnx};

Value shrink(GraphBuilder& b, Value x, double lambd, double bias) {
  return b.add(kShrink, {x}, {{"lambd", lambd}, {"bias", bias}});
}

}  // namespace sluice::ops
