// One time for several traces. Private to the module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

/// The begin of the first task of a trace, on its own clock; none: 0.
std::int64_t firstMoment(const Trace& trace);

/// What to add to the times of each trace so that all are on one time, which begins with the first
/// task of all. Virtual time has no time of day: simulated runs begin with the first task, too.
std::vector<std::int64_t> shiftsOf(std::span<const Trace* const> traces);

}  // namespace sluice::profile
