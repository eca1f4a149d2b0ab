// The lock-step view of a pipeline: which stage of which micro-batch a device holds in which cycle,
// how many micro-batches the original systems ask for, and how deep their queues are. Tables and
// tests read it; orders run event-driven (pipeline.h) and need none of these rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// The largest set of rotations of a list of devices (one entry per step, the devices that work in
/// it) of which no two ever hold one device in the same step; of several the lexicographically
/// first. Micro-batch m starts at steps * (m / n) + rotation[m % n].
std::vector<std::int32_t> overlapRotations(
    const std::vector<std::vector<std::int32_t>>& devicesOfStep);

}  // namespace sluice::schedule
