// The order of phased execution: every device runs a phase for all micro-batches before it starts
// the next phase, so that the data of a phase is loaded once.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// `phaseOfStage` starts at 0 and never decreases. Unless `separateBackward` is set, the last phase
/// runs both passes of a micro-batch before it starts the next micro-batch.
PipelineSchedule schedulePhases(const PipelineProblem& problem,
                                std::span<const std::int32_t> phaseOfStage,
                                bool separateBackward);

}  // namespace sluice::schedule
