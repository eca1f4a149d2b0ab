#include "sluice/api/lowering.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/program/memory_plan.h"

namespace sluice {
namespace {

using parallel::ConcurrentStages;
using parallel::PipelinedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using parallel::Strategy;

Lowered planOnce(const LoweringRequest& request,
                 const device::KernelTable& kernels,
                 const program::StatePlan& state) {
  Lowered made{.program = {}, .state = state, .execution = {}, .graph = request.graph};
  parallel::VariableHomes homes;
  for (const program::PlacedVariable& placed : state.variables()) {
    if (placed.device != program::kRemote) {
      homes.emplace(placed.variable.name, placed.device);
    }
  }
  made.execution =
      parallel::planExecution(made.graph, request.strategy, request.plan, std::move(homes));
  if (request.onPlanned) {
    request.onPlanned(made.graph, made.execution);
  }
  program::LowerOptions options = request.lower;
  options.sequential = made.execution.sequential;
  made.program = program::lower(program::Placed{.graph = made.graph,
                                                .segments = made.execution.segments,
                                                .homes = made.execution.homes,
                                                .schedule = made.execution.schedule,
                                                .streaming = made.execution.streaming},
                                kernels,
                                made.state,
                                options);
  return made;
}

/// Variables whose storage is changed in front of the loop have a copy there for all of it. Where
/// there is no room for these, each micro-batch makes them anew: the same bits in more time.
Lowered planInRoom(const LoweringRequest& request,
                   const device::KernelTable& kernels,
                   const program::StatePlan& state) {
  try {
    return planOnce(request, kernels, state);
  } catch (const OutOfMemory&) {
    LoweringRequest anew = request;
    anew.lower.packsInLoop = true;
    anew.onPlanned = nullptr;  // rules do not depend on it
    return planOnce(anew, kernels, state);
  }
}

std::size_t largestOf(const program::Program& program) {
  std::size_t bytes = 0;
  for (const program::DevicePlan& device : program.devices) {
    bytes = std::max(bytes, device.totalBytes());
  }
  return bytes;
}

/// Whether phases load ahead, and how their updates take turns with what they stream.
struct PhaseIo {
  bool overlap = true;
  parallel::PhaseSchedule schedule = parallel::PhaseSchedule::Batch;
};

/// What the strategy leaves open, by falling need of memory.
std::vector<PhaseIo> phaseIos(const Strategy& strategy) {
  using parallel::IoSchedule;
  using parallel::PhaseSchedule;
  std::vector<PhaseIo> ios;
  for (const bool overlap : {true, false}) {
    if (strategy.ioSchedule() == (overlap ? IoSchedule::OnDemand : IoSchedule::Preload)) {
      continue;
    }
    if (strategy.phaseSchedule() != PhaseSchedule::Automatic) {
      ios.push_back({overlap, strategy.phaseSchedule()});
      continue;
    }
    ios.push_back({overlap, PhaseSchedule::Batch});
    ios.push_back({overlap, PhaseSchedule::Interleaving});
  }
  return ios;
}

/// The orders of phases and micro-batches that it allows.
std::vector<parallel::StreamOrder> streamOrders(const Strategy& strategy) {
  switch (strategy.phaseOrder()) {
    case parallel::PhaseOrder::PhaseMajor:
      return {parallel::StreamOrder::PhaseMajor};
    case parallel::PhaseOrder::MicroBatchMajor:
      return {parallel::StreamOrder::MicroBatchMajor};
    case parallel::PhaseOrder::Automatic:
      break;
  }
  return {parallel::StreamOrder::PhaseMajor, parallel::StreamOrder::MicroBatchMajor};
}

/// Of phased execution the order that moves fewer bytes, of those that fit; none fits: the same
/// with updates, then phases, that load less ahead; else what the last one says.
Lowered planPhases(const LoweringRequest& request,
                   const device::KernelTable& kernels,
                   const program::StatePlan& state) {
  std::optional<Lowered> best;
  std::optional<OutOfMemory> tooLarge;
  for (const PhaseIo& io : phaseIos(request.strategy)) {
    for (const parallel::StreamOrder order : streamOrders(request.strategy)) {
      LoweringRequest one = request;
      one.plan.phaseOrder = order;
      one.plan.overlap = io.overlap;
      one.plan.phaseSchedule = io.schedule;
      one.onPlanned = best ? nullptr : request.onPlanned;  // rules do not depend on the order
      try {
        Lowered made = planOnce(one, kernels, state);
        if (!best || program::remoteBytesPerRound(made.program) <
                         program::remoteBytesPerRound(best->program)) {
          best = std::move(made);
        }
      } catch (const OutOfMemory& error) {
        tooLarge = error;
      }
    }
    if (best) {
      return std::move(*best);
    }
  }
  throw OutOfMemory(*tooLarge);
}

Lowered plan(const LoweringRequest& request,
             const device::KernelTable& kernels,
             const program::StatePlan& state) {
  return parallel::isPhased(request.strategy.kind()) ? planPhases(request, kernels, state)
                                                     : planInRoom(request, kernels, state);
}

/// A change that may help, with the words a user would write.
struct Remedy {
  std::string text;
  Strategy strategy;
  parallel::PlanOptions plan;
};

/// One after the other: for sharding.
std::vector<Stage> stagesOf(const parallel::StagePlan& plan) {
  std::vector<Stage> stages;
  for (const parallel::StageInfo& info : plan.stages) {
    stages.emplace_back(info.blocks).device(info.device);
  }
  return stages;
}

bool isAlone(const parallel::StagePlan& plan, std::size_t stage) {
  return std::ranges::count(plan.slotOfStage, plan.slotOfStage[stage]) == 1;
}

/// With concurrent stages as they are: for pipelines.
std::vector<Stage> placesOf(const parallel::StagePlan& plan) {
  const std::vector<Stage> stages = stagesOf(plan);
  std::vector<Stage> places;
  for (std::size_t s = 0; s < stages.size();) {
    std::vector<Stage> branches;
    for (const std::int32_t slot = plan.slotOfStage[s];
         s < stages.size() && plan.slotOfStage[s] == slot;
         ++s) {
      branches.push_back(stages[s]);
    }
    places.push_back(branches.size() == 1 ? branches[0] : ConcurrentStages(branches));
  }
  return places;
}

/// The stages with the largest possible one cut in two, its second half on a new device.
std::optional<parallel::StagePlan> onOneMoreDevice(parallel::StagePlan plan,
                                                   const std::vector<std::int64_t>& weight) {
  std::size_t largest = plan.stages.size();
  std::int32_t devices = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    devices = std::max(devices, plan.stages[s].device + 1);
    const bool better = largest == plan.stages.size() || weight[s] > weight[largest];
    if (plan.stages[s].blocks.size() > 1 && isAlone(plan, s) && better) {
      largest = s;
    }
  }
  if (largest == plan.stages.size()) {
    return std::nullopt;
  }
  std::vector<std::string>& blocks = plan.stages[largest].blocks;
  const auto half = blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2);
  const parallel::StageInfo second{devices, std::vector<std::string>(half, blocks.end())};
  blocks.erase(half, blocks.end());
  const auto behind = static_cast<std::ptrdiff_t>(largest) + 1;
  plan.stages.insert(plan.stages.begin() + behind, second);
  plan.slotOfStage.insert(plan.slotOfStage.begin() + behind, plan.slotOfStage[largest]);
  for (auto slot = plan.slotOfStage.begin() + behind; slot != plan.slotOfStage.end(); ++slot) {
    ++*slot;
  }
  return plan;
}

/// Bytes that the backward of each stage keeps of its forward, without recomputation.
std::vector<std::int64_t> stashOf(const LoweringRequest& request) {
  ir::Graph graph = request.graph;
  const parallel::ExecutionPlan plan = parallel::planExecution(
      graph, request.strategy, {.microBatches = request.plan.microBatches}, {});
  std::vector<std::int64_t> bytes;
  for (const parallel::StageWork& work : parallel::estimateWork(graph, plan.segments)) {
    bytes.push_back(work.stashBytes);
  }
  return bytes;
}

/// The same phases with tensors elsewhere between them, and made again instead of kept.
std::vector<Remedy> remediesForPhases(const LoweringRequest& request) {
  using parallel::Liveness;
  std::vector<Remedy> remedies;
  const bool training = std::ranges::any_of(request.graph.order(), [&](ir::OpId id) {
    return request.graph.op(id).place.pass == ir::Pass::Backward;
  });
  for (const bool recomputes : {false, true}) {
    for (const Liveness liveness : {Liveness::AlwaysLive,
                                    Liveness::OffChipAfterFwd,
                                    Liveness::OffChipAfterFwdNoOverlap,
                                    Liveness::OffChipAfterEachPhase}) {
      const bool useless = request.plan.recompute == parallel::Recompute::Pipeline || !training;
      if ((recomputes && useless) || (!recomputes && liveness == request.strategy.liveness())) {
        continue;
      }
      Remedy remedy{fmt::format("setTensorsLiveness(Liveness::{})", parallel::name(liveness)),
                    request.strategy.with(liveness),
                    request.plan};
      if (recomputes) {
        remedy.text += " with recomputation(Recomputation::Pipeline)";
        remedy.plan.recompute = parallel::Recompute::Pipeline;
      }
      remedies.push_back(std::move(remedy));
    }
  }
  return remedies;
}

std::vector<Remedy> remediesFor(const LoweringRequest& request) {
  std::vector<Remedy> remedies;
  if (parallel::isPhased(request.strategy.kind())) {
    return remediesForPhases(request);
  }
  const auto add = [&](std::string text, Strategy strategy, parallel::PlanOptions options) {
    remedies.push_back({std::move(text), std::move(strategy), std::move(options)});
  };
  parallel::PlanOptions recompute = request.plan;
  recompute.recompute = parallel::Recompute::Pipeline;
  const bool canRecompute = request.plan.recompute != parallel::Recompute::Pipeline;
  if (canRecompute) {
    add("recomputation(Recomputation::Pipeline)", request.strategy, recompute);
  }
  const std::vector<parallel::BlockInfo> blocks = parallel::blocksOf(request.graph);
  const parallel::StagePlan stages = parallel::resolveStages(request.strategy, blocks);
  if (stages.stages.size() > 1 && request.strategy.kind() == parallel::StrategyKind::Pipelined) {
    for (const char* schedule : {"1f1b", "zb-h1", "interleaved"}) {
      const PipelinedExecution other = PipelinedExecution(placesOf(stages)).schedule(schedule);
      if (other.schedule() == request.strategy.schedule()) {
        continue;
      }
      add(fmt::format("schedule(\"{}\")", schedule), other, request.plan);
      if (canRecompute) {
        add(fmt::format("schedule(\"{}\") with recomputation(Recomputation::Pipeline)", schedule),
            other,
            recompute);
      }
    }
    add("ShardedExecution with the same stages", ShardedExecution(stagesOf(stages)), request.plan);
  }
  if (!blocks.empty()) {
    if (auto more = onOneMoreDevice(stages, stashOf(request))) {
      const bool sharded = request.strategy.kind() == parallel::StrategyKind::Sharded;
      const Strategy wider =
          sharded
              ? Strategy(ShardedExecution(stagesOf(*more)))
              : Strategy(PipelinedExecution(placesOf(*more)).schedule(request.strategy.schedule()));
      add("one more device: " + wider.str(), wider, request.plan);
      if (canRecompute) {
        add("one more device and recomputation(Recomputation::Pipeline): " + wider.str(),
            wider,
            recompute);
      }
    }
  }
  return remedies;
}

/// The changes that fit, a line each.
std::string whatFits(const LoweringRequest& request,
                     const device::KernelTable& kernels,
                     const program::StatePlan& state) {
  std::string text;
  for (const Remedy& remedy : remediesFor(request)) {
    try {
      const Lowered made =
          plan({request.graph, remedy.strategy, remedy.plan, request.lower}, kernels, state);
      text += fmt::format("\n  {}: at most {} on a device",
                          remedy.text,
                          program::formatBytes(largestOf(made.program)));
    } catch (const Error&) {
      continue;  // over the budget, too, or not possible for this model
    }
  }
  return text;
}

/// The least that any of the phased plans needs, with its setting.
std::string smallestBudget(const LoweringRequest& request,
                           const device::KernelTable& kernels,
                           const program::StatePlan& state) {
  std::vector<Remedy> all = remediesForPhases(request);
  all.push_back({"the settings given", request.strategy, request.plan});
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::string setting;
  program::LowerOptions unlimited = request.lower;
  unlimited.memoryPerDevice = 0;
  for (const Remedy& remedy : all) {
    for (const parallel::StreamOrder order : streamOrders(remedy.strategy)) {
      parallel::PlanOptions options = remedy.plan;
      options.phaseOrder = order;
      const PhaseIo io = phaseIos(remedy.strategy).back();
      options.overlap = io.overlap;
      options.phaseSchedule = io.schedule;
      const Lowered made =
          planOnce({request.graph, remedy.strategy, options, unlimited}, kernels, state);
      if (largestOf(made.program) < least) {
        least = largestOf(made.program);
        setting = remedy.text;
      }
    }
  }
  return fmt::format(
      "the smallest budget that works for these phases is {} bytes, with {}; use more "
      "phases, smaller micro-batches or a smaller model",
      least,
      setting);
}

}  // namespace

Lowered lowerGraph(const LoweringRequest& request,
                   const device::KernelTable& kernels,
                   const program::StatePlan& state) {
  try {
    return plan(request, kernels, state);
  } catch (const OutOfMemory& error) {
    const std::string fits = whatFits(request, kernels, state);
    if (fits.empty() && parallel::isPhased(request.strategy.kind())) {
      raise<OutOfMemory>("{}\n{}", error.message(), smallestBudget(request, kernels, state));
    }
    raise<OutOfMemory>("{}\n{}{}",
                       error.message(),
                       fits.empty() ? "no other schedule, recomputation or cut that was planned "
                                      "fits: use more devices, smaller micro-batches or a smaller "
                                      "model"
                                    : "these changes were planned and fit:",
                       fits);
  }
}

}  // namespace sluice
