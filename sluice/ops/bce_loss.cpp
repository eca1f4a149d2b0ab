// bce_loss: -(target * log(p) + (1 - target) * log(1 - p)). Both logarithms stop at that of the
// smallest normal number of the type, or -100: a certain error is large, not infinite, and passes
// no gradient.
#include <array>
#include <cmath>
#include <limits>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{kReductionAttr}};

double smallest(DType dtype) {
  constexpr double kSmallestFloat16 = 0x1p-14;
  switch (dtype) {
    case DType::F64:
      return std::exp(-100.0);
    case DType::F16:
      return kSmallestFloat16;
    default:
      return static_cast<double>(std::numeric_limits<float>::min());
  }
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const Value one = b.scalar(dtype, 1.0);
  const Value lowest = b.scalar(dtype, smallest(dtype));
  const auto boundedLog = [&](Value p) { return log(b, maximum(b, p, lowest)); };
  const Value hit = mul(b, inputs[1], boundedLog(inputs[0]));
  const Value miss = mul(b, sub(b, one, inputs[1]), boundedLog(sub(b, one, inputs[0])));
  return {reduceLoss(b, neg(b, add(b, hit, miss)), reductionOf(op))};
}

}  // namespace

constinit const ir::OpDef kBceLoss{.name = "bce_loss",
                                   .minInputs = 2,
                                   .maxInputs = 2,
                                   .attrs = kAttrs,
                                   .infer = inferPairLoss,
                                   .decompose = decompose,
                                   .traits = {.loss = true}};

Value bceLoss(GraphBuilder& b, Value prediction, Value target, Reduction reduction) {
  return b.add(kBceLoss, {prediction, target}, {{"reduction", name(reduction)}});
}

}  // namespace sluice::ops
