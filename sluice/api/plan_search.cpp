#include "sluice/api/plan_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

std::vector<Strategy> strategiesWithoutPhases(const PlanSpace& space) {
  std::vector<Strategy> all;
  for (const std::int64_t n : deviceCounts(space.devices)) {
    for (const char* schedule : {"1f1b", "zb-h1", "zero-bubble", "gpipe", "interleaved"}) {
      // Without a backward pass all orders are the same, except for those in timesteps.
      const bool differs = space.training || schedule == std::string_view("1f1b") ||
                           schedule == std::string_view("interleaved");
      if (differs) {
        all.push_back(PipelinedExecution::automatic(n).schedule(schedule));
      }
    }
    for (const char* schedule : {"chunked", "zero-bubble"}) {  // with two stages per device
      if (space.training) {
        all.push_back(PipelinedExecution::automatic(n).schedule(schedule).stagesPerDevice(2));
      }
    }
    all.push_back(ShardedExecution::automatic(n));
  }
  all.push_back(PipelinedExecution::automatic(1));
  return all;
}

std::vector<Strategy> strategiesWithPhases(const PlanSpace& space) {
  std::vector<Strategy> all;
  for (const std::int64_t phases : {2, 4, 8, 16, 32}) {
    for (const Liveness liveness : {Liveness::AlwaysLive, Liveness::OffChipAfterEachPhase}) {
      if (!space.training && liveness != Liveness::AlwaysLive) {
        continue;
      }
      all.push_back(SerialPhasedExecution(Phase::automatic(phases)).setTensorsLiveness(liveness));
      if (space.devices > 1 && liveness == Liveness::AlwaysLive) {
        all.push_back(ParallelPhasedExecution(Phase::automatic(phases)));
      }
    }
  }
  return all;
}

/// A strategy with growing thrift.
std::vector<PlanChoice> withThrift(const Strategy& strategy, bool training) {
  const bool phased = parallel::isPhased(strategy.kind());  // its state is off chip anyway
  std::vector<PlanChoice> choices;
  const auto add = [&](Recomputation recomputation, bool optimizer, bool weights) {
    choices.push_back({strategy, recomputation, optimizer, weights});
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

class Search {
 public:
  Search(const PlanSpace& space,
         const TryPlan& tryPlan,
         double parallel,
         const SearchSettings& settings,
         PlanReport& report)
      : space_(space), tryPlan_(tryPlan), parallel_(parallel), settings_(settings), r_(report) {}

  void run() {
    std::vector<Family> first;
    std::vector<Family> phased;
    std::vector<Family> others;
    for (Family& family : namedPlans(space_)) {
      std::vector<Family>& part = parallel::isPhased(family[0].strategy.kind()) ? phased
                                  : isEarly(family[0].strategy)                 ? first
                                                                                : others;
      part.push_back(std::move(family));
    }
    tryFamilies(first);
    if (!r_.best || settings_.exhaustive) {
      tryFamilies(phased);
    }
    tryFamilies(others);
    if (r_.best) {
      shiftCut();
    } else {
      findSmallestBudget();
    }
    noteOneDevice();
    r_.bound = std::isfinite(leastWork_) ? leastWork_ / parallel_ : 0;
  }

 private:
  using Family = std::vector<PlanChoice>;

  static std::size_t longestOf(const std::vector<Family>& families) {
    std::size_t longest = 0;
    for (const Family& family : families) {
      longest = std::max(longest, family.size());
    }
    return longest;
  }

  /// The usual schedules over all devices, and one device.
  bool isEarly(const Strategy& strategy) const {
    return strategy.automaticDevices() == 1 ||
           (strategy.automaticDevices() == space_.devices &&
            (strategy.kind() == parallel::StrategyKind::Sharded ||
             strategy.schedule() == PipelineKind::OneForwardOneBackward ||
             strategy.schedule() == PipelineKind::ZeroBubbleH1));
  }

  /// The least thrift of every family first, so that the fastest plans are known early.
  void tryFamilies(const std::vector<Family>& families) {
    std::vector<bool> done(families.size(), false);
    const std::size_t longest = longestOf(families);
    for (std::size_t level = 0; level < longest; ++level) {
      for (std::size_t f = 0; f < families.size(); ++f) {
        if (level >= families[f].size() || (done[f] && !settings_.exhaustive)) {
          continue;
        }
        if (isTimeUp(r_.best ? 1 : kShareUntilFit)) {
          return;
        }
        const PlanOutcome outcome = attempt(families[f][level], level == 0);
        // What is impossible stays so with more thrift, what fits needs no more of it, and what is
        // slow does not become faster.
        done[f] = done[f] || outcome != PlanOutcome::TooLarge || isSlow(r_.tried.back());
      }
    }
  }

  bool isSlow(const TriedPlan& tried) const { return r_.best && tried.seconds >= r_.best->seconds; }

  bool isTimeUp(double share) {
    if (settings_.usedTime() < share) {
      return false;
    }
    r_.complete = false;
    return true;
  }

  /// Whatever does not fit is also planned without a limit, if `needs`: what it would need and
  /// give.
  PlanOutcome attempt(const PlanChoice& choice, bool needs) {
    Trial trial = tryPlan_(choice, space_.budget);
    TriedPlan tried{.choice = choice, .outcome = trial.outcome, .reason = trial.reason};
    if (trial.plan) {
      note(*trial.plan, tried);
      if (!r_.best || trial.plan->seconds < r_.best->seconds) {
        r_.best = std::move(trial.plan);
      }
    } else if (trial.outcome == PlanOutcome::TooLarge && needs) {
      const Trial unlimited = tryPlan_(choice, 0);
      if (unlimited.plan) {
        note(*unlimited.plan, tried);
        if (tried.largest < least_) {
          least_ = tried.largest;
          leastChoice_ = choice;
        }
      }
    }
    r_.tried.push_back(std::move(tried));
    fitting_ += trial.outcome == PlanOutcome::Fits ? 1 : 0;
    report();
    return trial.outcome;
  }

  void note(const Plan& plan, TriedPlan& tried) {
    tried.seconds = plan.seconds;
    tried.largest = plan.largestDevice();
    leastWork_ = std::min(leastWork_, std::accumulate(plan.busy.begin(), plan.busy.end(), 0.0));
  }

  void report() const {
    if (settings_.progress) {
      settings_.progress({.tried = r_.tried.size(),
                          .fitting = fitting_,
                          .bestSeconds = r_.best ? r_.best->seconds : 0});
    }
  }

  /// One device does nothing twice and copies nothing, so its kernels count in every bound.
  void noteOneDevice() {
    const Trial trial = tryPlan_({.strategy = PipelinedExecution::automatic(1)}, 0);
    if (trial.plan) {
      TriedPlan ignored;
      note(*trial.plan, ignored);
    }
  }

  /// Gives busy devices of the best pipeline less and the others more, while that helps.
  void shiftCut() {
    constexpr int kMostShifts = 6;
    constexpr double kDamping = 0.5;
    for (int i = 0; i < kMostShifts; ++i) {
      const Plan before = *r_.best;
      const Strategy& strategy = before.choice.strategy;
      const auto devices = static_cast<std::size_t>(strategy.automaticDevices());
      if (devices < 2 || before.busy.size() != devices || isTimeUp(1)) {
        return;
      }
      const double mean = std::accumulate(before.busy.begin(), before.busy.end(), 0.0) /
                          static_cast<double>(devices);
      std::vector<double> shares;
      for (std::size_t d = 0; d < devices; ++d) {
        const double share =
            strategy.shares().empty() ? 1.0 / static_cast<double>(devices) : strategy.shares()[d];
        const double off = before.busy[d] > 0 ? mean / before.busy[d] : 1.0;
        // Three digits are enough for a cut and can be read.
        shares.push_back(std::max(1.0, std::round(1000 * share * std::pow(off, kDamping))) / 1000);
      }
      if (std::ranges::equal(shares, strategy.shares())) {
        return;
      }
      PlanChoice shifted = before.choice;
      shifted.strategy = strategy.kind() == parallel::StrategyKind::Pipelined
                             ? Strategy(PipelinedExecution::automatic(shares)
                                            .schedule(strategy.schedule())
                                            .stagesPerDevice(strategy.stagesPerDevice()))
                             : Strategy(ShardedExecution::automatic(shares));
      if (attempt(shifted, false) != PlanOutcome::Fits || r_.best->choice == before.choice) {
        return;
      }
    }
  }

  /// Each choice that is possible is asked for less than the least so far, until it has no less;
  /// the thriftiest come first.
  void findSmallestBudget() {
    if (leastChoice_ && tryPlan_(*leastChoice_, least_).plan) {  // not only without a limit
      r_.smallestBudget = least_;
      r_.smallest = leastChoice_;
    } else {
      least_ = kAny;
    }
    std::vector<Family> families = namedPlans(space_);
    std::ranges::reverse(families);
    const std::size_t longest = longestOf(families);
    for (std::size_t less = 1; less <= longest; ++less) {
      for (const Family& family : families) {
        if (isTimeUp(1) || r_.best) {
          return;
        }
        if (less <= family.size()) {
          lower(family[family.size() - less]);
        }
      }
    }
  }

  void lower(const PlanChoice& choice) {
    while (least_ > 1) {
      const Trial trial = tryPlan_(choice, least_ - 1);
      if (!trial.plan) {
        return;
      }
      if (trial.plan->largestDevice() <= space_.budget &&
          attempt(choice, false) == PlanOutcome::Fits) {  // it was not its turn before
        r_.smallestBudget.reset();
        r_.smallest.reset();
        return;
      }
      // What the plan takes is a budget itself, unless another budget makes another cut.
      const std::size_t bytes = trial.plan->largestDevice();
      least_ = tryPlan_(choice, bytes).plan ? bytes : least_ - 1;
      r_.smallestBudget = least_;
      r_.smallest = choice;
      report();
    }
  }

  static constexpr std::size_t kAny = std::size_t{1} << 60;
  /// If nothing fits after this share of the time, the rest is for the smallest budget.
  static constexpr double kShareUntilFit = 0.6;

  const PlanSpace& space_;
  const TryPlan& tryPlan_;
  double parallel_;
  const SearchSettings& settings_;
  PlanReport& r_;
  std::size_t fitting_ = 0;
  std::size_t least_ = kAny;  // bytes of a plan that was made
  std::optional<PlanChoice> leastChoice_;
  double leastWork_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<std::vector<PlanChoice>> namedPlans(const PlanSpace& space) {
  std::vector<std::vector<PlanChoice>> families;
  for (const auto& strategies : {strategiesWithoutPhases(space), strategiesWithPhases(space)}) {
    for (const Strategy& strategy : strategies) {
      families.push_back(withThrift(strategy, space.training));
    }
  }
  return families;
}

void searchPlans(const PlanSpace& space,
                 const TryPlan& tryPlan,
                 double parallel,
                 const SearchSettings& settings,
                 PlanReport& report) {
  Search(space, tryPlan, parallel, settings, report).run();
}

}  // namespace sluice
