// Optimizers whose gradients pass through a function of Python first.
#pragma once

#include "python/core/bindings.h"
#include "sluice/optim/optimizer.h"

namespace sluice::python {

/// A copy of the optimizer. The function is called while a model is compiled; it gets the names of
/// the weights and their gradients, as tensors of a trace, and returns the gradients to apply.
std::shared_ptr<optim::Optimizer> mapped(const optim::Optimizer& optimizer,
                                         const py::function& function);

}  // namespace sluice::python
