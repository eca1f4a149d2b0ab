// Optimizer state in PyTorch's layout and in ours. PyTorch numbers parameters in the order of
// net.parameters(), group by group, and so do we. What optimizer.state_dict() gives there is
// flattened into two sections of tensors (docs/state.md has the few lines of Python).
#pragma once

#include "sluice/api/model.h"
#include "sluice/api/training_state.h"

namespace sluice {

/// From PyTorch's optimizer of the same name, for loadOptimizerStateDict of this model. Throws
/// InvalidArgument for state of another rule or for other parameters, Unsupported for a rule that
/// PyTorch does not have. Attributes that this library does not know are named in a warning, once,
/// or only in the debug log (Options::relaxOptimizerAttributesChecks).
OptimizerStateDict importTorch(Model& model, const OptimizerStateDict& torch);

/// The state of the model's optimizer for PyTorch's optimizer of the same name, over all weights.
OptimizerStateDict exportTorch(const Model& model);

}  // namespace sluice
