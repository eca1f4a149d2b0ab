// Chunked, ZeroBubbleH1 and ZeroBubble: the best of a few list schedules. Internal to the module.
#pragma once

#include "sluice/schedule/layout.h"

namespace sluice::schedule {

/// The search ends early at `bound`. Throws InvalidArgument if nothing fits the byte cap.
PipelineSchedule searchOrders(PipelineKind kind, const Layout& layout, std::int64_t bound);

}  // namespace sluice::schedule
