#include "sluice/api/plan_search.h"

#include <algorithm>
#include <limits>
#include <map>

namespace sluice {
namespace {

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
                                  : isEarly(family[0])                          ? first
                                                                                : others;
      part.push_back(std::move(family));
    }
    tryFamilies(first);
    const bool phasedFirst = !r_.best || settings_.exhaustive;
    if (phasedFirst) {
      tryFamilies(phased);
    }
    tryFamilies(others);
    if (r_.best) {
      shiftCut();
      if (!phasedFirst && isThrifty(r_.best->choice)) {
        tryFamilies(phased);
      }
    } else {
      findSmallestBudget();
    }
    findBound();
  }

 private:
  using Family = std::vector<PlanChoice>;

  /// Whether it does more work than it would with more memory, so that phases may do less.
  static bool isThrifty(const PlanChoice& choice) {
    return choice.recomputation != Recomputation::None || choice.optimizerOffChip ||
           choice.weightsOffChip;
  }

  static std::size_t longestOf(const std::vector<Family>& families) {
    std::size_t longest = 0;
    for (const Family& family : families) {
      longest = std::max(longest, family.size());
    }
    return longest;
  }

  /// The usual schedules over all devices, with and without replicas, and one device.
  bool isEarly(const PlanChoice& choice) const {
    const Strategy& strategy = choice.strategy;
    const std::int64_t devices = strategy.automaticDevices();
    return devices * choice.replicas == 1 ||
           (devices * choice.replicas == space_.devices &&
            (devices == 1 || strategy.kind() == parallel::StrategyKind::Sharded ||
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
        done[f] = done[f] || isSettled(outcome);
      }
    }
  }

  /// Whether more thrift than in the last plan tried has no point. What is impossible stays so,
  /// what fits needs no more of it, and what is slow does not become faster. Only the fastest
  /// phases may: what is computed again does not travel.
  bool isSettled(PlanOutcome outcome) const {
    const TriedPlan& tried = r_.tried.back();
    if (outcome == PlanOutcome::Fits && parallel::isPhased(tried.choice.strategy.kind())) {
      return tried.seconds > r_.best->seconds;
    }
    return outcome != PlanOutcome::TooLarge || (r_.best && tried.seconds >= r_.best->seconds);
  }

  bool isTimeUp(double share) {
    if (settings_.usedTime() < share && !settings_.stop()) {
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
    noteBound(choice, trial, choice.replicas);
    if (trial.plan) {
      note(*trial.plan, tried);
      if (!r_.best || trial.plan->seconds < r_.best->seconds) {
        r_.best = std::move(trial.plan);
      }
    } else if (trial.outcome == PlanOutcome::TooLarge && needs) {
      const Trial unlimited = tryPlan_(choice, 0);
      noteBound(choice, unlimited, choice.replicas);
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

  static void note(const Plan& plan, TriedPlan& tried) {
    tried.seconds = plan.seconds;
    tried.largest = plan.largestDevice();
  }

  void report() const {
    if (settings_.progress) {
      settings_.progress({.tried = r_.tried.size(),
                          .fitting = fitting_,
                          .bestSeconds = r_.best ? r_.best->seconds : 0});
    }
  }

  /// Every plan with so many replicas does at least what one device would do for each of them. The
  /// bound is that of the number of replicas that needs least.
  void findBound() {
    for (const std::int64_t replicas : replicaCounts(space_)) {
      if (!chains_.contains(replicas) && !settings_.stop()) {
        const PlanChoice one{.strategy = PipelinedExecution::automatic(1)};
        noteBound(one, tryPlan_(withReplicas(one, space_, replicas), 0), replicas);
      }
    }
    double least = kNever;
    for (const auto& [replicas, work] : works_) {
      const double shared = work / parallel_;
      const auto chain = chains_.find(replicas);
      const bool isChain = chain != chains_.end() && chain->second > shared;
      const double bound = isChain ? chain->second : shared;
      if (bound < least) {
        least = bound;
        r_.boundedBy = isChain ? BoundedBy::Chain : BoundedBy::Work;
      }
    }
    r_.bound = settings_.stop() || least == kNever ? 0 : least;
  }

  void noteBound(const PlanChoice& choice, const Trial& trial, std::int64_t replicas) {
    if (!trial.plan || choice.recomputation != Recomputation::None) {
      return;
    }
    const auto [work, isNew] = works_.try_emplace(replicas, trial.work);
    work->second = std::min(work->second, trial.work);
    if (choice.strategy.automaticDevices() == 1) {  // no chain is cut by a copy
      chains_.emplace(replicas, trial.chain);
    }
  }

  /// Gives busy devices of the best pipeline less and the others more, while that helps.
  void shiftCut() {
    constexpr int kMostShifts = 6;
    for (int i = 0; i < kMostShifts && !isTimeUp(1); ++i) {
      const PlanChoice before = r_.best->choice;
      const std::optional<PlanChoice> shifted = shiftedCut(*r_.best);
      if (!shifted || attempt(*shifted, false) != PlanOutcome::Fits || r_.best->choice == before) {
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

  static constexpr double kNever = std::numeric_limits<double>::infinity();
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
  std::map<std::int64_t, double> works_;   // by replicas: seconds of all kernels
  std::map<std::int64_t, double> chains_;  // by replicas: seconds of the longest chain
};

}  // namespace

void searchPlans(const PlanSpace& space,
                 const TryPlan& tryPlan,
                 double parallel,
                 const SearchSettings& settings,
                 PlanReport& report) {
  Search(space, tryPlan, parallel, settings, report).run();
}

}  // namespace sluice
