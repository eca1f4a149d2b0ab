// bce_with_logits_loss: binary cross-entropy of sigmoid(x), which is softplus(x) - x t. That form
// would cancel for a confident hit: at x = 8 and t = 1 the loss is 3.4e-4, the difference of two
// numbers near 8. With s = 1 for x > 0, else 0, it is
//
//     softplus(-|x|) + x (s - t)
//
// where both terms are positive for targets in [0, 1], so that a small loss keeps its digits. The
// gradient, sigmoid(x) - t, does so for the same reason, and is 1/2 - t at 0.
#include <array>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{kReductionAttr}};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Value x = inputs[0];
  const DType dtype = op.inputs[0].dtype;
  const Value zero = b.scalar(dtype, 0.0);
  const Value positive = greater(b, x, zero);
  const Value side = where(b, positive, b.scalar(dtype, 1.0), zero);
  const Value spread = softplus(b, where(b, positive, neg(b, x), x));
  const Value missed = mul(b, x, sub(b, side, inputs[1]));
  return {reduceLoss(b, add(b, spread, missed), reductionOf(op))};
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
