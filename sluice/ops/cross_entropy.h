// The attributes of cross_entropy and its gradient.
#pragma once

#include <array>

#include "sluice/ops/loss.h"

namespace sluice::ops {

inline constexpr std::array<ir::AttrSpec, 3> kCrossEntropyAttrs = {
    {kReductionAttr, kIgnoreIndexAttr, {.name = "labelSmoothing", .kind = ir::AttrKind::Real}}};

/// Throws InvalidArgument unless it is from 0 to 1.
double smoothingOf(const ir::OpView& op);

}  // namespace sluice::ops
