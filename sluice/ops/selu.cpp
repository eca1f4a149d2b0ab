// selu: gamma x where x is positive, else gamma alpha (exp(x) - 1).
#include <array>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "alpha", .kind = ir::AttrKind::Real, .real = 1.67326319217681884765625},
     {.name = "gamma", .kind = ir::AttrKind::Real, .real = 1.05070102214813232421875}}};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Value negative = minimum(b, inputs[0], b.scalar(dtype, 0.0));
  const Value bent = mul(b, b.scalar(dtype, op.attrs.real("alpha")), expm1(b, negative));
  return {mul(b, b.scalar(dtype, op.attrs.real("gamma")), add(b, relu(b, inputs[0]), bent))};
}

constexpr ir::OnnxName kOnnx[] = {{"Selu", 1}, {"Selu", 6}};

}  // namespace

constinit const ir::OpDef kSelu{.name = "selu",
                                .attrs = kAttrs,
                                .infer = inferUnary<Accepts::Floating>,
                                .decompose = decompose,
                                .onnx = kOnnx};

Value selu(GraphBuilder& b, Value x) {
  return b.add(kSelu, {x});
}

}  // namespace sluice::ops
