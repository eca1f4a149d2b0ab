// Losses. One of the headers of ops.h, which says what they have in common.
#pragma once

#include <cstdint>

#include "sluice/ir/graph.h"
#include "sluice/ops/op_options.h"  // IWYU pragma: export

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

extern const ir::OpDef kBceLoss, kBceWithLogitsLoss, kCrossEntropy, kCrossEntropyGrad, kCtcLoss,
    kCtcLossGrad, kIdentityLoss, kL1Loss, kMseLoss, kNllLoss, kNllLossGrad;

// Losses. Class scores are [batch, classes, ...], labels i32 or i64 [batch, ...].
Value nllLoss(GraphBuilder& b, Value logProbabilities, Value labels, NllOptions options = {});
Value nllLossGrad(
    GraphBuilder& b, Value labels, Value dy, std::int64_t classes, NllOptions options = {});
/// Output 1 of the op has the logarithm of the sum of the exponentials of each term.
Value crossEntropy(GraphBuilder& b, Value logits, Value labels, CrossEntropyOptions options = {});
/// All of these are i32 or i64.
struct CtcTargets {
  Value targets;        ///< [batch, labels]
  Value inputLengths;   ///< [batch], in time steps
  Value targetLengths;  ///< [batch], in labels
};
/// logProbabilities are [steps, batch, classes].
Value ctcLoss(GraphBuilder& b,
              Value logProbabilities,
              const CtcTargets& targets,
              const CtcOptions& options = {});
Value bceLoss(GraphBuilder& b,
              Value probability,
              Value target,
              Reduction reduction = Reduction::Mean);
Value bceWithLogitsLoss(GraphBuilder& b,
                        Value logit,
                        Value target,
                        Reduction reduction = Reduction::Mean);
Value identityLoss(GraphBuilder& b, Value x, Reduction reduction = Reduction::Mean);
Value l1Loss(GraphBuilder& b,
             Value prediction,
             Value target,
             Reduction reduction = Reduction::Mean);
Value mseLoss(GraphBuilder& b,
              Value prediction,
              Value target,
              Reduction reduction = Reduction::Mean);

}  // namespace sluice::ops
