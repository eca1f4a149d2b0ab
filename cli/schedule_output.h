// Prints what `sluice schedule` found, for people and as JSON.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/schedule_input.h"

namespace sluice::cli {

/// A run in virtual time in which copies share the ports of devices.
struct SimulatedPipeline {
  std::int64_t makespan = 0;
  double busyShare = 0;             ///< of all devices
  std::int64_t waitedForPorts = 0;  ///< by all copies
};
SimulatedPipeline simulatePipeline(const ScheduleRequest& request,
                                   const schedule::PipelineSchedule& result);

struct OutputOptions {
  std::int32_t width = 100;
  bool summary = false;  ///< no chart and no pieces
  std::optional<SimulatedPipeline> simulated = {};
};

/// The chart and the figures of an event-driven run.
void printTimeline(const ScheduleRequest& request,
                   const schedule::PipelineSchedule& result,
                   const OutputOptions& options);
void printTimelineJson(const ScheduleRequest& request,
                       const schedule::PipelineSchedule& result,
                       const OutputOptions& options);

/// The lock-step table of the guides and what they count besides it.
void printCycles(const ScheduleRequest& request);
void printCyclesJson(const ScheduleRequest& request);

}  // namespace sluice::cli
