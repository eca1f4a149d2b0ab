#include "sluice/parallel/execution_plan.h"

#include <algorithm>

#include "sluice/parallel/continuous.h"
#include "sluice/parallel/recompute.h"

namespace sluice::parallel {
namespace {

PipelineKind kindOf(const Strategy& strategy, std::size_t stages) {
  if (strategy.kind() == StrategyKind::Sharded || stages == 1) {
    return PipelineKind::Sequential;
  }
  return strategy.schedule();
}

StageMap stageMapOf(const ir::Graph& graph, const Strategy& strategy) {
  const std::vector<BlockInfo> blocks = blocksInUse(graph);
  const StagePlan plan = resolveStages(strategy, blocks);
  StageMap map;
  map.deviceOfStage.clear();
  for (const StageInfo& stage : plan.stages) {
    map.deviceOfStage.push_back(stage.device);
  }
  map.stageOfBlock.assign(graph.blocks().size(), 0);
  for (std::size_t b = 0; b < graph.blocks().size(); ++b) {
    const auto found = std::ranges::find(blocks, graph.blocks()[b], &BlockInfo::name);
    if (found != blocks.end()) {
      map.stageOfBlock[b] = plan.stageOfBlock[static_cast<std::size_t>(found - blocks.begin())];
    }
  }
  return map;
}

bool hasBackward(const SegmentPlan& plan) {
  return std::ranges::any_of(plan.segments, [](const SegmentInfo& info) {
    return info.kind != SegmentKind::Forward && !info.oncePerRound();
  });
}

}  // namespace

ExecutionPlan planExecution(ir::Graph& graph,
                            const Strategy& strategy,
                            const PlanOptions& options,
                            VariableHomes homes) {
  ExecutionPlan plan;
  plan.homes = std::move(homes);
  const StageMap map = stageMapOf(graph, strategy);
  placeByBlocks(graph, map, plan.homes);
  PipelineKind kind = kindOf(strategy, map.deviceOfStage.size());
  if (options.continuous) {
    updateContinuously(graph);
    // The order whose staleness is stated: forward first, then backward and update, in each cycle.
    kind = PipelineKind::Popart;
  }
  if (options.recompute) {
    recomputeActivations(graph, static_cast<std::int32_t>(map.deviceOfStage.size()));
  }
  plan.segments = cutSegments(graph, schedule::splitsBackward(kind));
  plan.sequential = kind == PipelineKind::Sequential && plan.segments.devices > 1;
  schedule::PipelineProblem problem{.deviceOfStage = plan.segments.deviceOfStage,
                                    .microBatches = options.microBatches,
                                    .training = hasBackward(plan.segments)};
  for (const StageWork& work : estimateWork(graph, plan.segments)) {
    problem.costs.push_back({.forward = std::max<std::int64_t>(work.forward, 1),
                             .backwardInput = std::max<std::int64_t>(work.backwardInput, 1),
                             .backwardWeight = std::max<std::int64_t>(work.backwardWeight, 1)});
    problem.bytes.push_back({.activations = work.stashBytes});
  }
  plan.schedule = schedule::schedulePipeline(kind, problem);
  return plan;
}

}  // namespace sluice::parallel
