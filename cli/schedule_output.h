// Prints what `sluice schedule` found, for people and as JSON.
#pragma once

#include <cstdint>

#include "cli/schedule_input.h"

namespace sluice::cli {

/// The chart and the figures of an event-driven run.
void printTimeline(const ScheduleRequest& request,
                   const schedule::PipelineSchedule& result,
                   std::int32_t width);
void printTimelineJson(const ScheduleRequest& request, const schedule::PipelineSchedule& result);

/// The lock-step table of the guides and what they count besides it.
void printCycles(const ScheduleRequest& request);
void printCyclesJson(const ScheduleRequest& request);

}  // namespace sluice::cli
