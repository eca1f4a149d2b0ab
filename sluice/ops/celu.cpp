// celu: x where it is positive, else alpha (exp(x / alpha) - 1).
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "alpha", .kind = ir::AttrKind::Real, .real = 1.0}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  if (!(op.attrs.real("alpha") != 0.0)) {
    raise<InvalidArgument>("celu: alpha must not be 0");
  }
  return inferUnary<Accepts::Floating>(op);
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Value alpha = b.scalar(dtype, op.attrs.real("alpha"));
  const Value negative = minimum(b, inputs[0], b.scalar(dtype, 0.0));
  const Value bent = mul(b, alpha, expm1(b, div(b, negative, alpha)));
  return {add(b, relu(b, inputs[0]), bent)};
}

constexpr ir::OnnxName kOnnx[] = {{"Celu", 12}};

}  // namespace

constinit const ir::OpDef kCelu{
    .name = "celu", .attrs = kAttrs, .infer = infer, .decompose = decompose, .onnx = kOnnx};

Value celu(GraphBuilder& b, Value x, double alpha) {
  return b.add(kCelu, {x}, {{"alpha", alpha}});
}

}  // namespace sluice::ops
