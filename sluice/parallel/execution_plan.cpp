#include "sluice/parallel/execution_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_set>

#include "sluice/base/error.h"
#include "sluice/parallel/recompute.h"
#include "sluice/schedule/phase_orders.h"

namespace sluice::parallel {
namespace {

PipelineKind kindOf(const Strategy& strategy, std::size_t stages) {
  if (strategy.kind() != StrategyKind::Pipelined || stages == 1) {
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

/// Stages of one phase that neither read each other's values nor share a variable run at the same
/// time: they get one slot.
void joinIndependentStages(const ir::Graph& graph,
                           std::span<const std::int32_t> stageOfBlock,
                           StagePlan& plan) {
  std::vector<bool> dependent(plan.stages.size(), false);  // on another one of its phase
  std::map<std::pair<std::string, std::int32_t>, std::int32_t> users;  // by variable and phase
  const auto stageOf = [&](const ir::Op& op) {
    return op.place.block < 0 ? -1 : stageOfBlock[static_cast<std::size_t>(op.place.block)];
  };
  const auto meet = [&](std::int32_t a, std::int32_t b) {
    const auto x = static_cast<std::size_t>(a);
    const auto y = static_cast<std::size_t>(b);
    if (a != b && plan.phaseOfStage[x] == plan.phaseOfStage[y]) {
      dependent[x] = dependent[y] = true;
    }
  };
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    const std::int32_t stage = stageOf(op);
    if (op.place.pass != ir::Pass::Forward || stage < 0) {
      continue;
    }
    for (const ir::Value v : op.inputs) {
      const ir::Op& producer = graph.op(v.op);
      if (producer.is(ir::kVariable)) {
        const std::int32_t phase = plan.phaseOfStage[static_cast<std::size_t>(stage)];
        meet(users.emplace(std::pair(producer.attrs.text("var"), phase), stage).first->second,
             stage);
      } else if (!producer.is(ir::kInput) && !producer.is(ir::kConstant) &&
                 stageOf(producer) >= 0) {
        meet(stageOf(producer), stage);
      }
    }
  }
  // The stages of a phase lie side by side; each joins the one before if both are free to.
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    bool joins = plan.phaseOfStage[s] == plan.phaseOfStage[s - 1] && !dependent[s];
    for (std::size_t other = s; joins && other-- > 0;) {
      if (plan.phaseOfStage[other] != plan.phaseOfStage[s]) {
        break;
      }
      joins = !dependent[other] && plan.stages[other].device != plan.stages[s].device;
    }
    // In the first slot gradients of what the stages share would have no stage to meet in.
    joins = joins && plan.phaseOfStage[s] > 0;
    plan.slotOfStage[s] = plan.slotOfStage[s - 1] + (joins ? 0 : 1);
  }
}

/// Of a graph whose ops carry both; phases without ops are left out.
std::vector<std::int32_t> phasesOfStages(const ir::Graph& graph, std::size_t stages) {
  std::vector<std::int32_t> phases(stages, 0);
  for (const ir::OpId id : graph.order()) {
    const ir::Placement& place = graph.op(id).place;
    if (place.pass == ir::Pass::Forward && place.phase >= 0 && place.stage >= 0) {
      phases[static_cast<std::size_t>(place.stage)] = place.phase;
    }
  }
  std::int32_t count = 0;
  for (std::size_t s = 0, last = 0; s < stages; ++s) {
    const bool same = s > 0 && phases[s] == static_cast<std::int32_t>(last);
    last = static_cast<std::size_t>(phases[s]);
    phases[s] = same ? phases[s - 1] : count++;
  }
  return phases;
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
    if (isPhased(strategy.kind())) {
      plan.phaseOfStage = phasesOfStages(graph, deviceOfStage.size());
    }
    return deviceOfStage;
  }
  const std::vector<BlockInfo> blocks = blocksOf(graph);
  StagePlan stages = resolveStages(strategy, blocks);
  StageMap map = stageMapOf(graph, blocks, stages);
  if (!stages.phaseOfStage.empty()) {
    joinIndependentStages(graph, map.stageOfBlock, stages);
    map.slotOfStage = stages.slotOfStage;
    plan.phaseOfStage = stages.phaseOfStage;
  }
  for (const StageInfo& stage : stages.stages) {
    plan.blocks.push_back(stage.blocks);
  }
  plan.slotOfStage = stages.slotOfStage;
  placeByBlocks(graph, map, plan.homes);
  return map.deviceOfStage;
}

RecomputeRule ruleOf(Recompute recompute) {
  switch (recompute) {
    case Recompute::All:
      return RecomputeRule::All;
    case Recompute::NormOnly:
      return RecomputeRule::NormOnly;
    case Recompute::Standard:
      return RecomputeRule::Standard;
    case Recompute::No:
    case Recompute::Pipeline:
    case Recompute::IfPipelined:
      break;
  }
  return RecomputeRule::Pipeline;
}

/// Decides which activations leave their devices between the passes. The schedule must be known,
/// because it says how many micro-batches each stage holds.
void planTravel(ExecutionPlan& plan) {
  Streaming& streaming = plan.streaming;
  for (const std::int32_t held : plan.schedule.stashDepth) {
    streaming.travel.push_back(travelSlots(held));
  }
  if (streaming.activations && std::ranges::none_of(streaming.travel, &TravelSlots::leaves)) {
    raise<InvalidArgument>(
        "setActivationLocation: activations are to be off chip, and no stage holds those of more "
        "than {} micro-batches, one that is being made and one that is being used, which have to "
        "be on its device; use a schedule that holds more (\"gpipe\", with a gradientAccumulation "
        "of at least {}), more stages, a phased strategy or recomputation, or leave the location "
        "of activations as it is",
        kStayingMicroBatches,
        kStayingMicroBatches + 1);
  }
}

bool hasBackward(const SegmentPlan& plan) {
  return std::ranges::any_of(plan.segments, [](const SegmentInfo& info) {
    return info.kind != SegmentKind::Forward && !info.oncePerRound();
  });
}

}  // namespace

void placeOps(ir::Graph& graph, PlanDraft& draft) {
  ExecutionPlan& plan = draft.plan;
  draft.deviceOfStage = place(graph, draft.strategy, draft.options, plan);
  // Continuous updates: the order whose staleness is stated, forward first, then backward and
  // update, in each cycle.
  draft.schedule = draft.options.continuous ? PipelineKind::Popart
                                            : kindOf(draft.strategy, draft.deviceOfStage.size());
  plan.pipelined = draft.strategy.kind() == StrategyKind::Pipelined &&
                   std::ranges::any_of(draft.deviceOfStage, [&](std::int32_t device) {
                     return device != draft.deviceOfStage[0];
                   });
  const Recompute recompute = draft.options.recompute;
  plan.recomputed =
      recompute != Recompute::No && (recompute != Recompute::IfPipelined || plan.pipelined);
}

void recompute(ir::Graph& graph, PlanDraft& draft) {
  const std::vector<std::int32_t>& slots = draft.plan.slotOfStage;
  const auto last = std::ranges::find(slots, slots.back());
  draft.recomputed = recomputeActivations(
      graph, ruleOf(draft.options.recompute), static_cast<std::int32_t>(last - slots.begin()));
}

void planStreaming(const ir::Graph& graph, PlanDraft& draft) {
  const Strategy& strategy = draft.strategy;
  const PlanOptions& options = draft.options;
  ExecutionPlan& plan = draft.plan;
  const bool phased = isPhased(strategy.kind());
  Streaming& streaming = plan.streaming;
  LocationPlan locations = options.locations;
  for (const MarkedTensor& tensor : markedTensors(graph)) {
    if (draft.recomputed.contains(tensor.producer)) {  // there is nothing to locate
      plan.ignoredLocations.push_back(tensor.name);
    } else {
      locations.tensors.emplace(tensor.name, tensor.onChip);  // unless the options say more
    }
  }
  streaming.variables = remoteVariables(graph, locations, phased);
  streaming.activations = isOffChip(options.locations.activation, phased);
  streaming.minActivationElements = options.locations.activation.minElements;
  streaming.tensors = std::move(locations.tensors);
  if (!phased) {
    return;
  }
  streaming.order = options.phaseOrder;
  streaming.updates = options.phaseSchedule;
  streaming.overlaps = options.overlap && strategy.liveness() != Liveness::OffChipAfterFwdNoOverlap;
  const PhaseNumbers numbers = numberPhases(
      plan.phaseOfStage.back() + 1, strategy.liveness(), strategy.hasSeparateBackwardPhase());
  // One stage of a device can turn around; two would have to run in each other's middle.
  std::set<std::int32_t> devices;
  streaming.turnsAround = numbers.forward.back() == numbers.backward.back();
  for (std::size_t s = 0; s < plan.phaseOfStage.size(); ++s) {
    if (plan.phaseOfStage[s] == plan.phaseOfStage.back()) {
      streaming.turnsAround =
          streaming.turnsAround && devices.insert(draft.deviceOfStage[s]).second;
    }
  }
  for (const std::int32_t phase : plan.phaseOfStage) {
    streaming.forwardPhase.push_back(numbers.forward[static_cast<std::size_t>(phase)]);
    streaming.backwardPhase.push_back(numbers.backward[static_cast<std::size_t>(phase)]);
  }
}

void cutStages(const ir::Graph& graph, PlanDraft& draft) {
  ExecutionPlan& plan = draft.plan;
  plan.segments =
      cutSegments(graph,
                  {.splitBackward = schedule::splitsBackward(draft.schedule),
                   .phases = plan.streaming.order == StreamOrder::PhaseMajor,
                   .wholeUpdates = plan.streaming.updates == PhaseSchedule::BatchClusteredIO,
                   .streamed = &plan.streaming.variables});
  plan.training = hasBackward(plan.segments);
  plan.work = estimateWork(graph, plan.segments);
}

void scheduleRound(PlanDraft& draft) {
  ExecutionPlan& plan = draft.plan;
  const bool phaseMajor = plan.streaming.order == StreamOrder::PhaseMajor;
  plan.sequential =
      draft.schedule == PipelineKind::Sequential && plan.segments.devices > 1 && !phaseMajor;
  schedule::PipelineProblem problem{.deviceOfStage = plan.segments.deviceOfStage,
                                    .slotOfStage = plan.slotOfStage,
                                    .microBatches = draft.options.microBatches,
                                    .training = plan.training};
  for (const StageWork& work : plan.work) {
    problem.costs.push_back({.forward = std::max<std::int64_t>(work.forward, 1),
                             .backwardInput = std::max<std::int64_t>(work.backwardInput, 1),
                             .backwardWeight = std::max<std::int64_t>(work.backwardWeight, 1)});
    problem.bytes.push_back({.activations = work.stashBytes});
  }
  plan.schedule =
      phaseMajor ? schedule::schedulePhases(problem, plan.phaseOfStage, !plan.streaming.turnsAround)
                 : schedule::schedulePipeline(draft.schedule, problem);
  if (plan.training && !plan.streaming.hasPhases()) {
    planTravel(plan);
  }
}

}  // namespace sluice::parallel
