// Settings of automatic loss scaling; see loss_scaler.h.
#pragma once

#include <cstdint>

namespace sluice::optim {

struct LossScalingOptions {
  /// An element of a gradient counts as large from this fraction of the largest float16, 65504, on.
  double binEdgeLocation = 0.125;
  /// The loss scaling is halved if more than this fraction of all elements is large.
  double thresholdUpperCountProportion = 1e-7;
  /// The loss scaling changes once in this many updates, starting with the first.
  std::int64_t updatePeriod = 1;

  bool operator==(const LossScalingOptions&) const = default;
};

}  // namespace sluice::optim
