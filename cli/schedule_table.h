// `sluice schedule --schedule all`: every schedule of one problem beside the others.
#pragma once

#include <string>
#include <vector>

#include "cli/schedule_input.h"

namespace sluice::cli {

/// One schedule, or why the problem has none of this kind.
struct ComparedSchedule {
  schedule::PipelineKind kind = schedule::PipelineKind::OneForwardOneBackward;
  ScheduleRequest request;
  std::string problem;  ///< empty: it can be made
};

/// The schedules of all kinds. Throws InvalidArgument if no kind can read the settings.
std::vector<ComparedSchedule> readAllSchedules(ScheduleSettings settings);

/// The shortest first; those that cannot be made last, with the reason.
void printComparison(const std::vector<ComparedSchedule>& all, bool json);

}  // namespace sluice::cli
