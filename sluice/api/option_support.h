// Checks that this version acts on every option that is set. An option that nothing reads must not
// be ignored silently, so a model refuses it. The list of such options is in option_support.cpp;
// when an option begins to work, its name is removed there.
#pragma once

#include "sluice/api/options.h"

namespace sluice::detail {

/// Throws Unsupported for an option that nothing reads and that differs from its default, and
/// InvalidArgument for an option that nothing reads in this kind of model.
void requireSupported(const Options& options, bool madeOfModule = false);

}  // namespace sluice::detail
