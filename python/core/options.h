#pragma once

#include "python/core/bindings.h"
#include "sluice/api/option_value.h"

namespace sluice::python {

/// A name that is no text, such as OutputMode.All.
struct OptionName {
  std::string text;
};

/// Stage("A").device(1): a call with its arguments and the calls chained to it.
struct OptionCall {
  std::string name;
  py::list arguments;
  py::list then;
};

detail::OptionValue toOptionValue(const py::handle& value);

}  // namespace sluice::python
