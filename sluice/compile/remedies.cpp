#include "sluice/compile/remedies.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace sluice::compiler {
namespace {

using parallel::ConcurrentStages;
using parallel::PipelinedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using parallel::Strategy;

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

/// Other orders of the stages that an automatic cut made.
void addSchedulesOfCut(const TooLarge& found,
                       const parallel::PlanOptions& recompute,
                       std::vector<Remedy>& remedies) {
  const std::vector<double> shares(found.strategy.shares().begin(), found.strategy.shares().end());
  const std::int32_t devices = found.strategy.automaticDevices();
  for (const char* schedule : {"1f1b", "zb-h1", "sequential"}) {
    PipelinedExecution other = shares.empty() ? PipelinedExecution::automatic(devices)
                                              : PipelinedExecution::automatic(shares);
    other.schedule(schedule).stagesPerDevice(found.strategy.stagesPerDevice());
    if (found.strategy.kind() != parallel::StrategyKind::Pipelined || other == found.strategy) {
      continue;
    }
    remedies.push_back({fmt::format("schedule(\"{}\")", schedule), other, found.plan});
    remedies.push_back(
        {fmt::format("schedule(\"{}\") with recomputation(Recomputation::Pipeline)", schedule),
         other,
         recompute});
  }
}

/// Whether the graph reads weights, and not constants in their place, which are always on the
/// devices.
bool readsWeights(const ir::Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](ir::OpId id) {
    const ir::Op& op = graph.op(id);
    return op.is(ir::kVariable) &&
           graph.findVariable(op.attrs.text("var"))->role == ir::VariableRole::Weight;
  });
}

/// The same strategy with state in remote memory between its uses, least first.
std::vector<Remedy> remediesOffChip(const TooLarge& found) {
  std::vector<Remedy> remedies;
  Remedy remedy{"", found.strategy, found.plan, Remedy::Family::OffChip};
  const auto leave = [&](parallel::TensorLocation& location, std::string_view setter) {
    if (!location.onChip.value_or(true)) {
      return;
    }
    location.onChip = false;
    remedy.text += fmt::format(
        "{}options.tensorLocations.{}(TensorLocationSettings().useOnChipStorage(false));",
        remedy.text.empty() ? "" : " ",
        setter);
    remedies.push_back(remedy);
  };
  leave(remedy.plan.locations.optimizer, "setOptimizerLocation");
  leave(remedy.plan.locations.weight, "setWeightLocation");
  leave(remedy.plan.locations.accumulator, "setAccumulatorLocation");
  return remedies;
}

/// A phase per block, one after the other on one device.
std::vector<Remedy> remediesInPhases(const TooLarge& found,
                                     const std::vector<parallel::BlockInfo>& blocks) {
  std::vector<Remedy> remedies;
  std::vector<parallel::Phase> phases;
  phases.reserve(blocks.size());
  for (const parallel::BlockInfo& block : blocks) {
    phases.emplace_back(block.name);
  }
  if (phases.size() < 2 || found.plan.annotated || found.plan.continuous) {
    return remedies;
  }
  const Strategy serial = parallel::SerialPhasedExecution(phases);
  for (Remedy& remedy : remediesForPhases({found.graph, serial, found.plan})) {
    remedies.push_back(std::move(remedy));
  }
  remedies.insert(remedies.begin(), {"", serial, found.plan});
  for (Remedy& remedy : remedies) {
    const bool recomputes = remedy.plan.recompute != found.plan.recompute;
    const parallel::Liveness liveness = remedy.strategy.liveness();
    remedy.text = fmt::format(
        "options.setExecutionStrategy({}{});{}",
        serial.str(),
        liveness == serial.liveness()
            ? ""
            : fmt::format(".setTensorsLiveness(Liveness::{})", parallel::name(liveness)),
        recomputes ? " options.recomputation(Recomputation::Pipeline);" : "");
    remedy.family = Remedy::Family::Phases;
  }
  return remedies;
}

}  // namespace

std::vector<Remedy> remediesForPhases(const TooLarge& found) {
  using parallel::Liveness;
  std::vector<Remedy> remedies;
  const bool training = std::ranges::any_of(found.graph.order(), [&](ir::OpId id) {
    return found.graph.op(id).place.pass == ir::Pass::Backward;
  });
  for (const bool recomputes : {false, true}) {
    for (const Liveness liveness : {Liveness::AlwaysLive,
                                    Liveness::OffChipAfterFwd,
                                    Liveness::OffChipAfterFwdNoOverlap,
                                    Liveness::OffChipAfterEachPhase}) {
      const bool useless = found.plan.recompute == parallel::Recompute::Pipeline || !training;
      if ((recomputes && useless) || (!recomputes && liveness == found.strategy.liveness())) {
        continue;
      }
      Remedy remedy{fmt::format("setTensorsLiveness(Liveness::{})", parallel::name(liveness)),
                    found.strategy.with(liveness),
                    found.plan};
      if (recomputes) {
        remedy.text += " with recomputation(Recomputation::Pipeline)";
        remedy.plan.recompute = parallel::Recompute::Pipeline;
      }
      remedies.push_back(std::move(remedy));
    }
  }
  return remedies;
}

std::vector<Remedy> remediesFor(const TooLarge& found) {
  std::vector<Remedy> remedies;
  if (parallel::isPhased(found.strategy.kind())) {
    return remediesForPhases(found);
  }
  const auto add = [&](std::string text, Strategy strategy, parallel::PlanOptions options) {
    remedies.push_back({std::move(text), std::move(strategy), std::move(options)});
  };
  parallel::PlanOptions recompute = found.plan;
  recompute.recompute = parallel::Recompute::Pipeline;
  const bool canRecompute = found.plan.recompute != parallel::Recompute::Pipeline;
  if (canRecompute) {
    add("recomputation(Recomputation::Pipeline)", found.strategy, recompute);
  }
  const bool automatic = found.strategy.automaticDevices() > 0;  // blocks do not matter
  const std::vector<parallel::BlockInfo> blocks =
      automatic ? std::vector<parallel::BlockInfo>() : parallel::blocksOf(found.graph);
  const parallel::StagePlan stages = parallel::resolveStages(found.strategy, blocks);
  if (stages.stages.size() > 1 && found.strategy.kind() == parallel::StrategyKind::Pipelined) {
    for (const char* schedule : {"1f1b", "zb-h1", "interleaved"}) {
      const PipelinedExecution other = PipelinedExecution(placesOf(stages)).schedule(schedule);
      if (other.schedule() == found.strategy.schedule()) {
        continue;
      }
      add(fmt::format("schedule(\"{}\")", schedule), other, found.plan);
      if (canRecompute) {
        add(fmt::format("schedule(\"{}\") with recomputation(Recomputation::Pipeline)", schedule),
            other,
            recompute);
      }
    }
    add("ShardedExecution with the same stages", ShardedExecution(stagesOf(stages)), found.plan);
  }
  if (automatic && found.strategy.automaticDevices() > 1) {
    addSchedulesOfCut(found, recompute, remedies);
  }
  if (!blocks.empty()) {
    if (auto more = onOneMoreDevice(stages, found.stash())) {
      const bool sharded = found.strategy.kind() == parallel::StrategyKind::Sharded;
      const Strategy wider =
          sharded
              ? Strategy(ShardedExecution(stagesOf(*more)))
              : Strategy(PipelinedExecution(placesOf(*more)).schedule(found.strategy.schedule()));
      add("one more device: " + wider.str(), wider, found.plan);
      if (canRecompute) {
        add("one more device and recomputation(Recomputation::Pipeline): " + wider.str(),
            wider,
            recompute);
      }
    }
  }
  if (!readsWeights(found.graph)) {
    return remedies;
  }
  for (const auto& more : {remediesOffChip(found), remediesInPhases(found, blocks)}) {
    remedies.insert(remedies.end(), more.begin(), more.end());
  }
  return remedies;
}

}  // namespace sluice::compiler
