// Draws a schedule as a picture: a row per device, a block per piece of work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/schedule_input.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::cli {

/// Work of devices, in any unit of time.
struct Drawing {
  std::string title;
  std::string end;  ///< the time at the right end, as text
  const std::vector<std::vector<schedule::Work>>& devices;
  std::int64_t makespan = 1;
};
std::string drawSvg(const Drawing& drawing);

/// An SVG document that looks right on light and dark pages.
std::string drawSvg(const ScheduleRequest& request, const schedule::PipelineSchedule& schedule);

}  // namespace sluice::cli
