// Chunked, ZeroBubbleH1 and ZeroBubble: the best of a few list schedules. Internal to the module.
#pragma once

#include "sluice/schedule/checked_problem.h"

namespace sluice::schedule {

/// The search ends early at `bound`. Throws InvalidArgument if nothing fits the byte cap.
PipelineSchedule searchOrders(PipelineKind kind, const CheckedProblem& checked, std::int64_t bound);

}  // namespace sluice::schedule
