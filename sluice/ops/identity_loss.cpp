// identity_loss: the reduction alone, for a model whose output is its loss.
#include <array>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{kReductionAttr}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  return {reducedType(op, op.inputs[0])};
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  return {reduceLoss(b, inputs[0], reductionOf(op))};
}

constexpr ir::OnnxName kOnnx[] = {{"IdentityLoss", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kIdentityLoss{.name = "identity_loss",
                                        .attrs = kAttrs,
                                        .infer = infer,
                                        .decompose = decompose,
                                        .traits = {.loss = true},
                                        .onnx = kOnnx};

Value identityLoss(GraphBuilder& b, Value x, Reduction reduction) {
  return b.add(kIdentityLoss, {x}, {{"reduction", name(reduction)}});
}

}  // namespace sluice::ops
