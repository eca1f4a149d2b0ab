// Optimizer state in PyTorch's layout and in ours. PyTorch numbers parameters in the order of
// net.parameters(), group by group, and so do we. The result of PyTorch's optimizer.state_dict() is
// flattened into two sections of tensors (docs/state.md has the few lines of Python).
#pragma once

#include "sluice/api/model.h"
#include "sluice/api/training_state.h"

#pragma GCC visibility push(default)

namespace sluice {

/// Converts the state of PyTorch's optimizer of the same name for loadOptimizerStateDict of this
/// model. Throws InvalidArgument for the state of another rule or of other parameters, and
/// Unsupported for a rule that PyTorch does not have. Attributes that this library does not know
/// are named in a warning, once, or only in the debug log
/// (Options::relaxOptimizerAttributesChecks).
OptimizerStateDict importTorch(Model& model, const OptimizerStateDict& torch);

/// Converts the state of the model's optimizer for PyTorch's optimizer of the same name over all
/// weights.
OptimizerStateDict exportTorch(const Model& model);

}  // namespace sluice

#pragma GCC visibility pop
