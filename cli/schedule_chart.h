// Draws a schedule as text: a row per device, a cell per piece of work, aligned to time.
#pragma once

#include <string>

#include "cli/schedule_input.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::cli {

/// Panels of at most `width` columns, one below the other; of many, the first and the last ones.
std::string drawChart(const ScheduleRequest& request,
                      const schedule::PipelineSchedule& schedule,
                      std::int32_t width);

/// An integer of the problem in the user's unit; fractions with at most `digits` digits.
std::string inUnit(std::int64_t value, std::int64_t unit, int digits);

}  // namespace sluice::cli
