// Draws a schedule as a picture: a row per device, a block per piece of work.
#pragma once

#include <string>

#include "cli/schedule_input.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::cli {

/// An SVG document that looks right on light and dark pages.
std::string drawSvg(const ScheduleRequest& request, const schedule::PipelineSchedule& schedule);

}  // namespace sluice::cli
