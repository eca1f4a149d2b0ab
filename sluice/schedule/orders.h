// Orders that follow from a rule. Every piece gets a position in one list over all devices that
// respects the dependencies, and each device runs its part of that list, so such orders cannot
// deadlock. Weight parts of a split backward pass are left out. Internal to the module.
#pragma once

#include "sluice/schedule/checked_problem.h"

namespace sluice::schedule {

/// For Sequential, Grouped, Interleaved and Popart: by the cycles of the lock-step pipeline.
Orders lockStepOrders(PipelineKind kind, const CheckedProblem& checked);
Orders gpipeOrders(const CheckedProblem& checked);
Orders oneForwardOneBackwardOrders(const CheckedProblem& checked);

}  // namespace sluice::schedule
