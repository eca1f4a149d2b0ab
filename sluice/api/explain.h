// explain: describes a compiled program for people: how calls are cut into micro-batches, where
// stages run, what they cost, and how good the schedule is.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sluice/api/batch.h"
#include "sluice/api/options.h"
#include "sluice/api/session.h"

namespace sluice {

std::string explain(const CompiledProgram& compiled,
                    const BatchLayout& layout,
                    const Options& options,
                    const program::StatePlan& state);

/// What each replica keeps of the variables that are shared out; "" if there are none.
std::string explainParts(const program::StatePlan& state);

/// Which device is the busiest, and how long even shares would take; "" for one device.
std::string explainBalance(std::span<const parallel::StageWork> work,
                           std::span<const std::int32_t> deviceOfStage);

}  // namespace sluice
