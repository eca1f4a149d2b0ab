#include "sluice/parallel/execution_plan.h"

#include <algorithm>

#include "sluice/parallel/continuous.h"
#include "sluice/parallel/recompute.h"
#include "sluice/parallel/relay.h"

namespace sluice::parallel {
namespace {

PipelineKind kindOf(const Strategy& strategy, std::size_t stages) {
  if (strategy.kind() == StrategyKind::Sharded || stages == 1) {
    return PipelineKind::Sequential;
  }
  return strategy.schedule();
}

StageMap stageMapOf(const ir::Graph& graph,
                    std::span<const BlockInfo> blocks,
                    const StagePlan& plan) {
  StageMap map;
  map.deviceOfStage.clear();
  for (const StageInfo& stage : plan.stages) {
    map.deviceOfStage.push_back(stage.device);
  }
  map.slotOfStage = plan.slotOfStage;
  map.stageOfBlock.assign(graph.blocks().size(), 0);
  for (std::size_t b = 0; b < graph.blocks().size(); ++b) {
    const auto found = std::ranges::find(blocks, graph.blocks()[b], &BlockInfo::name);
    if (found != blocks.end()) {
      map.stageOfBlock[b] = plan.stageOfBlock[static_cast<std::size_t>(found - blocks.begin())];
    }
  }
  return map;
}

/// Places every op and returns the device of each stage.
std::vector<std::int32_t> place(ir::Graph& graph,
                                const Strategy& strategy,
                                const PlanOptions& options,
                                ExecutionPlan& plan) {
  if (options.annotated) {
    std::vector<std::int32_t> deviceOfStage = placeByAnnotations(graph, plan.homes);
    plan.blocks.resize(deviceOfStage.size());
    for (std::size_t s = 0; s < deviceOfStage.size(); ++s) {
      plan.slotOfStage.push_back(static_cast<std::int32_t>(s));
    }
    return deviceOfStage;
  }
  const std::vector<BlockInfo> blocks = blocksInUse(graph);
  const StagePlan stages = resolveStages(strategy, blocks);
  const StageMap map = stageMapOf(graph, blocks, stages);
  for (const StageInfo& stage : stages.stages) {
    plan.blocks.push_back(stage.blocks);
  }
  plan.slotOfStage = stages.slotOfStage;
  placeByBlocks(graph, map, plan.homes);
  return map.deviceOfStage;
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
  const std::vector<std::int32_t> deviceOfStage = place(graph, strategy, options, plan);
  PipelineKind kind = kindOf(strategy, deviceOfStage.size());
  plan.pipelined = strategy.kind() == StrategyKind::Pipelined &&
                   std::ranges::any_of(deviceOfStage, [&](std::int32_t device) {
                     return device != deviceOfStage[0];
                   });
  if (options.continuous) {
    updateContinuously(graph);
    // The order whose staleness is stated: forward first, then backward and update, in each cycle.
    kind = PipelineKind::Popart;
  }
  if (kind == PipelineKind::Popart) {
    relayCopies(graph, deviceOfStage);
  }
  plan.recomputed = options.recompute == Recompute::Yes ||
                    (options.recompute == Recompute::IfPipelined && plan.pipelined);
  if (plan.recomputed) {
    const auto last = std::ranges::find(plan.slotOfStage, plan.slotOfStage.back());
    recomputeActivations(graph, static_cast<std::int32_t>(last - plan.slotOfStage.begin()));
  }
  plan.segments = cutSegments(graph, schedule::splitsBackward(kind));
  plan.sequential = kind == PipelineKind::Sequential && plan.segments.devices > 1;
  schedule::PipelineProblem problem{.deviceOfStage = plan.segments.deviceOfStage,
                                    .slotOfStage = plan.slotOfStage,
                                    .microBatches = options.microBatches,
                                    .training = hasBackward(plan.segments)};
  plan.training = problem.training;
  plan.work = estimateWork(graph, plan.segments);
  for (const StageWork& work : plan.work) {
    problem.costs.push_back({.forward = std::max<std::int64_t>(work.forward, 1),
                             .backwardInput = std::max<std::int64_t>(work.backwardInput, 1),
                             .backwardWeight = std::max<std::int64_t>(work.backwardWeight, 1)});
    problem.bytes.push_back({.activations = work.stashBytes});
  }
  plan.schedule = schedule::schedulePipeline(kind, problem);
  return plan;
}

}  // namespace sluice::parallel
