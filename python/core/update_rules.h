#pragma once

#include "python/core/bindings.h"
#include "sluice/frontends/tensorflow/loops.h"

namespace sluice::python {

/// From None, the name of a type, or a function that gives one for each weight.
AccumulationDtype accumulationDtype(const py::object& dtype);
/// "sum" or "mean". Throws InvalidArgument for another name.
Reduction reductionNamed(const std::string& name);

}  // namespace sluice::python
