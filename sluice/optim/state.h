// Lists, without a compiled model, what an optimizer keeps from one update to the next: the names,
// types and initial values of its variables. Saving and loading of optimizer state use this list.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sluice/ir/value.h"
#include "sluice/optim/gradient_options.h"
#include "sluice/optim/optimizer.h"

namespace sluice::optim {

/// The state for these weights, in the order in which a training graph declares it. Frozen weights
/// have none. A model whose loss does not depend on a weight has no state for that weight.
std::vector<ir::Variable> stateVariables(const Optimizer& optimizer,
                                         std::span<const ir::Variable> weights,
                                         const std::optional<LossScalingOptions>& lossScaling = {});

}  // namespace sluice::optim
