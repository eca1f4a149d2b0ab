// A Program of lanes, tasks and waits alone, made from a pipeline's schedule: without kernels,
// memory or a model. The simulator runs it like any other, so that pipelines of a thousand devices
// can be tried before anything is written for them.
#pragma once

#include "sluice/program/program.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::program {

/// A compute lane for each device, in the order of the schedule, and a lane for the copies between
/// each pair of neighbours. Segment `kind * stages + stage` is that kind of work (WorkKind) of that
/// stage; transfer s brings the activations of stage s to the next stage, transfer `stages + s` the
/// gradient of what stage s made back to it. Throws InvalidArgument for a problem with concurrent
/// stages.
Program bareProgram(const schedule::PipelineSchedule& schedule,
                    const schedule::PipelineProblem& problem);

}  // namespace sluice::program
