// The order of phased execution: every device runs a phase for all micro-batches before it goes on
// to the next, so that what the phase needs is loaded once.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// `phaseOfStage` counts from 0 and never falls. Unless `separateBackward`, the last phase runs
/// both passes of a micro-batch before it begins the next.
PipelineSchedule schedulePhases(const PipelineProblem& problem,
                                std::span<const std::int32_t> phaseOfStage,
                                bool separateBackward);

}  // namespace sluice::schedule
