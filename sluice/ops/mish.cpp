// mish: x tanh(softplus(x)).
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

std::vector<Value> decompose(GraphBuilder& b,
                             const ir::OpView& /*op*/,
                             std::span<const Value> inputs) {
  return {mul(b, inputs[0], tanh(b, softplus(b, inputs[0])))};
}

constexpr ir::OnnxName kOnnx[] = {{"Mish", 18}};

}  // namespace

constinit const ir::OpDef kMish{
    .name = "mish", .infer = inferUnary<Accepts::Floating>, .decompose = decompose, .onnx = kOnnx};

Value mish(GraphBuilder& b, Value x) {
  return b.add(kMish, {x});
}

}  // namespace sluice::ops
