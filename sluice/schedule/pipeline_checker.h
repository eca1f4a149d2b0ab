// An independent reading of the rules of pipeline.h for the tests: written with nothing but the
// problem, with plain loops, so that it shares no code with what it checks.
#pragma once

#include <string>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// What is wrong with a schedule, in words; empty if it is valid, its times are those of running
/// the orders, and all its measures are right. Memory is checked where all costs are positive.
std::string faultOf(const PipelineProblem& problem, const PipelineSchedule& schedule);

/// The smallest makespan of all orders, by branch and bound from a makespan known to be possible;
/// -1 when more than `mostNodes` were needed. Costs must be positive.
std::int64_t optimalMakespan(const PipelineProblem& problem,
                             bool splitBackward,
                             std::int64_t known,
                             std::int64_t mostNodes);

}  // namespace sluice::schedule
