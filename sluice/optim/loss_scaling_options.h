// Settings of automatic loss scaling; see loss_scaler.h.
#pragma once

#include <cstdint>

namespace sluice::optim {

struct LossScalingOptions {
  /// From which part of the largest float16, 65504, on an element of a gradient counts as large.
  double binEdgeLocation = 0.125;
  /// More large elements than this part of all of them halve the loss scaling.
  double thresholdUpperCountProportion = 1e-7;
  /// The loss scaling changes in every so many updates, from the first on.
  std::int64_t updatePeriod = 1;

  bool operator==(const LossScalingOptions&) const = default;
};

}  // namespace sluice::optim
