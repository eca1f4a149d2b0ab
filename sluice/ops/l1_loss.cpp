// l1_loss: |prediction - target|.
#include <array>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{kReductionAttr}};

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  return {reduceLoss(b, abs(b, sub(b, inputs[0], inputs[1])), reductionOf(op))};
}

}  // namespace

constinit const ir::OpDef kL1Loss{.name = "l1_loss",
                                  .minInputs = 2,
                                  .maxInputs = 2,
                                  .attrs = kAttrs,
                                  .infer = inferPairLoss,
                                  .decompose = decompose,
                                  .traits = {.loss = true}};

Value l1Loss(GraphBuilder& b, Value prediction, Value target, Reduction reduction) {
  return b.add(kL1Loss, {prediction, target}, {{"reduction", name(reduction)}});
}

}  // namespace sluice::ops
