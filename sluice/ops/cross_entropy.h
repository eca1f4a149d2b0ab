// The attributes of cross_entropy and its gradient.
#pragma once

#include <array>

#include "sluice/ops/loss.h"

namespace sluice::ops {

inline constexpr std::array<ir::AttrSpec, 4> kCrossEntropyAttrs = {
    {kReductionAttr,
     kIgnoreIndexAttr,
     {.name = "labelSmoothing", .kind = ir::AttrKind::Real},
     {.name = "wideLoss", .kind = ir::AttrKind::Bool}}};

/// The type of the loss: that of the scores, or with wideLoss that of statistics, as if 16-bit
/// scores had been cast before.
DType lossType(const ir::OpView& op);

/// Throws InvalidArgument unless it is from 0 to 1.
double smoothingOf(const ir::OpView& op);

}  // namespace sluice::ops
