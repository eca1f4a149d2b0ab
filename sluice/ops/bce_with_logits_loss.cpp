// bce_with_logits_loss: binary cross-entropy of sigmoid(logit), as softplus(logit) - logit *
// target: no overflow, and the exact gradient sigmoid(logit) - target also at 0.
#include <array>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{kReductionAttr}};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Value terms = sub(b, softplus(b, inputs[0]), mul(b, inputs[0], inputs[1]));
  return {reduceLoss(b, terms, reductionOf(op))};
}

}  // namespace

constinit const ir::OpDef kBceWithLogitsLoss{.name = "bce_with_logits_loss",
                                             .minInputs = 2,
                                             .maxInputs = 2,
                                             .attrs = kAttrs,
                                             .infer = inferPairLoss,
                                             .decompose = decompose,
                                             .traits = {.loss = true}};

Value bceWithLogitsLoss(GraphBuilder& b, Value prediction, Value target, Reduction reduction) {
  return b.add(kBceWithLogitsLoss, {prediction, target}, {{"reduction", name(reduction)}});
}

}  // namespace sluice::ops
