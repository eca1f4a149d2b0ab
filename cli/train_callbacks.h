// What `sluice train` does besides fit: it ends at numbers that are not finite, and a run that goes
// on takes a given learning rate.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sluice/api/fit.h"

namespace sluice::cli {

/// For FitOptions. The model must live as long as they do.
struct TrainCallbacks {
  /// They throw Error for a loss, and at the end for a weight, that is not finite.
  std::vector<std::shared_ptr<Callback>> callbacks;
  /// Throws Error for a weight that is not finite, so that the checkpoints before it stay.
  std::function<void()> beforeSave;
};

/// `rate` takes the place of the learning rate of the checkpoint that a run goes on from.
TrainCallbacks trainCallbacks(Model& model, std::optional<double> rate);

}  // namespace sluice::cli
