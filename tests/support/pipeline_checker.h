// An independent implementation of the rules of pipeline.h for the tests. It uses nothing but the
// problem and plain loops, so that it shares no code with what it checks.
#pragma once

#include <string>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// Says what is wrong with a schedule. Empty if the schedule is valid, its times are those of
/// running the orders, and all its measures are right. Memory is checked if all costs are positive.
std::string faultOf(const PipelineProblem& problem, const PipelineSchedule& schedule);

/// The smallest makespan of all orders, found by branch and bound from `known`, a makespan that is
/// possible; -1 if more than `mostNodes` nodes were needed. Costs must be positive.
std::int64_t optimalMakespan(const PipelineProblem& problem,
                             bool splitBackward,
                             std::int64_t known,
                             std::int64_t mostNodes);

}  // namespace sluice::schedule
