// Runs orders in an event-driven simulation and measures the result. Internal to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/schedule/checked_problem.h"

namespace sluice::schedule {

/// Starts every piece when its device and its predecessors are done. Fills everything but `kind`
/// and `bound`. Throws InternalError if the orders deadlock.
PipelineSchedule runOrders(const CheckedProblem& checked, const Orders& orders);

/// Runs all micro-batches of the checked one after the other; `one` is the schedule of each.
PipelineSchedule repeatSchedule(const CheckedProblem& checked, const PipelineSchedule& one);

}  // namespace sluice::schedule
