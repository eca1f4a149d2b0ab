// Runs the lanes of a Trace once more on the virtual clock, with other durations: how long would
// the same order take if copies were free, or if all stages were equal? Private to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/profile/trace.h"
#include "sluice/program/virtual_clock.h"

namespace sluice::profile {

/// By subject, in nanoseconds. What is not in a compute lane takes no time in a replay.
using Durations = std::vector<std::int64_t>;

/// The mean of every subject's tasks; 0 for one that has not run.
Durations meanDurations(const Trace& trace);
/// Subjects of the same category all take the mean of that category: every stage does equal work.
Durations evenDurations(const Trace& trace);

/// Throws InternalError if the tasks wait for each other in a circle.
program::ClockRun replay(const Trace& trace, const Durations& durations, std::int32_t rounds);

/// How long each device is idle before each of its tasks in a replay.
class Gaps {
 public:
  Gaps(const Trace& trace, const program::ClockRun& run, std::int32_t rounds);
  /// Before a task; null: from `last` to the end of the step.
  std::int64_t before(const runtime::TaskTime* next, const runtime::TaskTime& last) const;

 private:
  const Trace& t_;
  std::vector<std::vector<std::int64_t>> gaps_;  // by lane and place
  std::vector<std::int64_t> atEnd_;
  std::int32_t rounds_;
};

}  // namespace sluice::profile
