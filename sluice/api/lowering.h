// From a finished graph to a Program, and what to do when it does not fit: if the plan is over the
// byte budget, other settings are planned for real and those that fit are named in the error.
#pragma once

#include <functional>

#include "sluice/device/kernel.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/execution_plan.h"
#include "sluice/program/lower.h"
#include "sluice/program/state_plan.h"

namespace sluice {

struct LoweringRequest {
  const ir::Graph& graph;  ///< all passes done, not placed
  const parallel::Strategy& strategy;
  parallel::PlanOptions plan;
  program::LowerOptions lower;
  std::size_t remoteBytes = 0;  ///< what remote memory may hold; 0: anything
  /// Called between planning and lowering, with the placed graph.
  std::function<void(const ir::Graph&, const parallel::ExecutionPlan&)> onPlanned = {};
};

struct Lowered {
  program::Program program;
  program::StatePlan state;  ///< the model's, grown by the graph's variables
  parallel::ExecutionPlan execution;
  ir::Graph graph;  ///< placed
};

/// Throws what planning and lowering throw. An OutOfMemory lists changes of strategy, schedule,
/// recomputation and tensor locations, each of which was planned and fits.
Lowered lowerGraph(const LoweringRequest& request,
                   const device::KernelTable& kernels,
                   const program::StatePlan& state);

}  // namespace sluice
