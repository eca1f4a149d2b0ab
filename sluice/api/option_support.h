// Which options this version acts on. An option without a reader must not be ignored in silence:
// a model refuses it. Whoever makes an option work takes its name off the list.
#pragma once

#include "sluice/api/options.h"

namespace sluice::detail {

/// Throws Unsupported for an option that differs from its default and that nothing reads, and
/// InvalidArgument for one that nothing reads in this kind of model.
void requireSupported(const Options& options, bool madeOfModule = false);

}  // namespace sluice::detail
