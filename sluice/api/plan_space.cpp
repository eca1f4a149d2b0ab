// The choices of a search: which strategies, replicas and amounts of thrift there are.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "sluice/api/plan_search.h"

namespace sluice {
namespace {

/// Counts of devices that are tried: all up to 8, above that powers of two; the most come first.
std::vector<std::int64_t> deviceCounts(std::int64_t devices) {
  constexpr std::int64_t kAll = 8;
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 2; n <= devices; n = n < kAll ? n + 1 : 2 * n) {
    counts.push_back(n);
  }
  if (devices > 1 && (counts.empty() || counts.back() != devices)) {
    counts.push_back(devices);
  }
  std::ranges::reverse(counts);
  return counts;
}

/// `devices` are those of one replica.
std::vector<Strategy> strategiesWithoutPhases(std::int64_t devices, bool training) {
  std::vector<Strategy> all;
  for (const std::int64_t n : deviceCounts(devices)) {
    for (const char* schedule : {"1f1b", "zb-h1", "zero-bubble", "gpipe", "interleaved"}) {
      // Without a backward pass all orders are the same, except for those in timesteps.
      const bool differs = training || schedule == std::string_view("1f1b") ||
                           schedule == std::string_view("interleaved");
      if (differs) {
        all.push_back(PipelinedExecution::automatic(n).schedule(schedule));
      }
    }
    for (const char* schedule : {"chunked", "zero-bubble"}) {  // with two stages per device
      if (training) {
        all.push_back(PipelinedExecution::automatic(n).schedule(schedule).stagesPerDevice(2));
      }
    }
    all.push_back(ShardedExecution::automatic(n));
  }
  all.push_back(PipelinedExecution::automatic(1));
  return all;
}

std::vector<Strategy> strategiesWithPhases(std::int64_t devices, bool training) {
  std::vector<Strategy> all;
  for (const std::int64_t phases : {2, 4, 8, 16, 32}) {
    for (const Liveness liveness : {Liveness::AlwaysLive, Liveness::OffChipAfterEachPhase}) {
      if (!training && liveness != Liveness::AlwaysLive) {
        continue;
      }
      all.push_back(SerialPhasedExecution(Phase::automatic(phases)).setTensorsLiveness(liveness));
      if (devices > 1 && liveness == Liveness::AlwaysLive) {
        all.push_back(ParallelPhasedExecution(Phase::automatic(phases)));
      }
    }
  }
  return all;
}

/// Over all of so many devices: what is fast for most models, and what was best for fewer.
std::vector<Strategy> usualStrategies(std::int64_t devices, bool training, const Strategy& best) {
  std::vector<Strategy> all;
  const auto add = [&](const Strategy& strategy) {
    if (std::ranges::find(all, strategy) == all.end()) {
      all.push_back(strategy);
    }
  };
  if (devices == 1) {
    return {PipelinedExecution::automatic(1)};
  }
  add(PipelinedExecution::automatic(devices).schedule("1f1b"));
  if (training) {
    add(PipelinedExecution::automatic(devices).schedule("zb-h1"));
    add(PipelinedExecution::automatic(devices).schedule("zero-bubble"));
  }
  if (best.kind() == parallel::StrategyKind::Pipelined) {
    add(PipelinedExecution::automatic(devices)
            .schedule(best.schedule())
            .stagesPerDevice(best.stagesPerDevice()));
  } else if (best.kind() == parallel::StrategyKind::Sharded) {
    add(ShardedExecution::automatic(devices));
  }
  return all;
}

/// A strategy with growing thrift.
std::vector<PlanChoice> withThrift(const Strategy& strategy, bool training) {
  const bool phased = parallel::isPhased(strategy.kind());  // its state is off chip anyway
  std::vector<PlanChoice> choices;
  const auto add = [&](Recomputation recomputation, bool optimizer, bool weights) {
    choices.push_back({.strategy = strategy,
                       .recomputation = recomputation,
                       .optimizerOffChip = optimizer,
                       .weightsOffChip = weights});
  };
  if (!training) {
    add(Recomputation::None, false, false);
    if (!phased) {
      add(Recomputation::None, false, true);
    }
    return choices;
  }
  const Recomputation most =
      strategy.automaticDevices() == 1 ? Recomputation::All : Recomputation::Pipeline;
  for (const bool weights : {false, true}) {
    for (const bool optimizer : {false, true}) {
      if ((weights && !optimizer) || (phased && optimizer)) {
        continue;
      }
      for (const Recomputation each : {Recomputation::None, Recomputation::Standard, most}) {
        add(each, optimizer, weights);
      }
    }
  }
  return choices;
}

}  // namespace

std::vector<std::int64_t> replicaCounts(const PlanSpace& space) {
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 1; n <= std::min(space.devices, space.shared); ++n) {
    if (space.shared % n == 0) {
      counts.push_back(n);
    }
  }
  return counts;
}

std::vector<std::vector<PlanChoice>> namedPlans(const PlanSpace& space) {
  std::vector<std::vector<PlanChoice>> families;
  for (const auto& strategies : {strategiesWithoutPhases, strategiesWithPhases}) {
    for (const std::int64_t replicas : replicaCounts(space)) {
      for (const Strategy& strategy : strategies(space.devices / replicas, space.training)) {
        families.push_back(withThrift(strategy, space.training));
        for (PlanChoice& choice : families.back()) {
          choice = withReplicas(choice, space, replicas);
        }
      }
    }
  }
  if (space.constantWeights) {
    for (std::vector<PlanChoice>& family : families) {
      std::erase_if(family, [](const PlanChoice& choice) {
        return choice.weightsOffChip || parallel::isPhased(choice.strategy.kind());
      });
    }
    std::erase_if(families, [](const auto& family) { return family.empty(); });
  }
  return families;
}

std::vector<PlanChoice> plansOnOneMore(const PlanSpace& space, const PlanChoice& best) {
  PlanSpace more = space;
  ++more.devices;
  std::vector<PlanChoice> choices;
  const auto add = [&](const Strategy& strategy, std::int64_t replicas) {
    PlanChoice choice = withReplicas({.strategy = strategy}, more, replicas);
    choices.push_back(choice);
    choice.recomputation = best.recomputation;
    choice.optimizerOffChip = best.optimizerOffChip;
    choice.weightsOffChip = best.weightsOffChip;
    if (choice != choices.back()) {
      choices.push_back(choice);
    }
  };
  for (const std::int64_t replicas : replicaCounts(more)) {
    if (more.devices % replicas == 0) {
      for (const Strategy& strategy :
           usualStrategies(more.devices / replicas, space.training, best.strategy)) {
        add(strategy, replicas);
      }
    }
  }
  return choices;
}

void addOneMoreDevice(const PlanSpace& space,
                      const std::function<Trial(const PlanChoice&)>& tryPlan,
                      PlanReport& report) {
  double fastest = report.best->seconds;
  std::optional<PlanChoice> found;
  for (const PlanChoice& choice : plansOnOneMore(space, report.best->choice)) {
    const Trial trial = tryPlan(choice);
    if (trial.plan && trial.plan->seconds < fastest) {
      fastest = trial.plan->seconds;
      found = choice;
    }
  }
  if (found) {
    report.changes.push_back({"one more device: " + found->str(), fastest});
  }
}

PlanChoice withReplicas(PlanChoice choice, const PlanSpace& space, std::int64_t replicas) {
  choice.training = space.training;
  choice.replicas = replicas;
  choice.microBatches = replicas > 1 ? space.shared / replicas : 0;
  return choice;
}

std::optional<PlanChoice> shiftedCut(const Plan& plan) {
  constexpr double kDamping = 0.5;
  const Strategy& strategy = plan.choice.strategy;
  const auto devices = static_cast<std::size_t>(strategy.automaticDevices());
  if (devices < 2 || plan.busy.size() != devices) {
    return std::nullopt;
  }
  const double mean =
      std::accumulate(plan.busy.begin(), plan.busy.end(), 0.0) / static_cast<double>(devices);
  std::vector<double> shares;
  for (std::size_t d = 0; d < devices; ++d) {
    const double share =
        strategy.shares().empty() ? 1.0 / static_cast<double>(devices) : strategy.shares()[d];
    const double off = plan.busy[d] > 0 ? mean / plan.busy[d] : 1.0;
    // Three digits are enough for a cut and can be read.
    shares.push_back(std::max(1.0, std::round(1000 * share * std::pow(off, kDamping))) / 1000);
  }
  if (std::ranges::equal(shares, strategy.shares())) {
    return std::nullopt;
  }
  PlanChoice shifted = plan.choice;
  shifted.strategy = strategy.kind() == parallel::StrategyKind::Pipelined
                         ? Strategy(PipelinedExecution::automatic(shares)
                                        .schedule(strategy.schedule())
                                        .stagesPerDevice(strategy.stagesPerDevice()))
                         : Strategy(ShardedExecution::automatic(shares));
  return shifted;
}

}  // namespace sluice
