// What `sluice train` does besides fit: it ends at numbers that are not finite, and a run that goes
// on takes a given learning rate.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sluice/api/fit.h"

namespace sluice::cli {

/// For FitOptions::callbacks. The model must live as long as they do. They throw Error for a loss,
/// and at the end for a weight, that is not finite. `rate` takes the place of the learning rate of
/// the checkpoint that a run goes on from.
std::vector<std::shared_ptr<Callback>> trainCallbacks(Model& model, std::optional<double> rate);

}  // namespace sluice::cli
