// hard_sigmoid: alpha x + beta limited to [0, 1].
#include <array>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "alpha", .kind = ir::AttrKind::Real, .real = 0.2},
     {.name = "beta", .kind = ir::AttrKind::Real, .real = 0.5}}};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Value scaled = mul(b, inputs[0], b.scalar(dtype, op.attrs.real("alpha")));
  return {clamp(b, add(b, scaled, b.scalar(dtype, op.attrs.real("beta"))), 0.0, 1.0)};
}

constexpr ir::OnnxName kOnnx[] = {{"HardSigmoid", 1}, {"HardSigmoid", 6}};

}  // namespace

constinit const ir::OpDef kHardSigmoid{.name = "hard_sigmoid",
                                       .attrs = kAttrs,
                                       .infer = inferUnary<Accepts::Floating>,
                                       .decompose = decompose,
                                       .onnx = kOnnx};

Value hardSigmoid(GraphBuilder& b, Value x, double alpha, double beta) {
  return b.add(kHardSigmoid, {x}, {{"alpha", alpha}, {"beta", beta}});
}

}  // namespace sluice::ops
