// The search for a plan: which choices there are, in which order they are tried, and when to stop.
// It knows neither models nor devices: a trial is a function. Private to the api.
//
// Choices are a strategy (which devices, how the model is cut, in which order), a number of
// replicas and an amount of thrift (recomputation, state off chip). For each strategy, thrift grows
// until a plan fits: more of it is more work for the same result, so a strategy that is slower than
// the best plan even without a limit of memory is not tried further. A few strategies come first,
// so that something fits early; if none of them does, the model is cut into phases next, else after
// all others if what fits needs thrift. At the end the cut of the best pipeline is shifted from
// devices that are busy to those that are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sluice/api/model.h"

namespace sluice {

struct PlanSpace {
  std::int64_t devices = 1;
  bool training = false;
  std::size_t budget = 0;        ///< bytes of a device; 0: not limited
  std::int64_t shared = 1;       ///< micro-batches that replicas can share out
  bool constantWeights = false;  ///< which cannot be off the devices
};

/// What came of a trial.
struct Trial {
  PlanOutcome outcome = PlanOutcome::Impossible;
  std::optional<Plan> plan = {};  ///< set if it fits
  std::string reason = {};        ///< set if it is impossible
  /// Seconds that no plan with so many replicas can do without: of all kernels of all replicas, and
  /// of the longest chain of kernels. 0: not known.
  double work = 0;
  double chain = 0;
};

/// Plans a choice within so many bytes per device; 0: any number.
using TryPlan = std::function<Trial(const PlanChoice&, std::size_t budget)>;

/// Counts of replicas that share out the micro-batches evenly; the fewest come first.
std::vector<std::int64_t> replicaCounts(const PlanSpace& space);
/// The choice with so many replicas.
PlanChoice withReplicas(PlanChoice choice, const PlanSpace& space, std::int64_t replicas);

/// The choices of a space, which are all that an exhaustive search tries: strategies without
/// phases, then those with phases, each with growing thrift.
std::vector<std::vector<PlanChoice>> namedPlans(const PlanSpace& space);

/// The choices that use one device more than the space has, with the best plan's thrift and without
/// any: the usual schedules of a pipeline, and replicas.
std::vector<PlanChoice> plansOnOneMore(const PlanSpace& space, const PlanChoice& best);
/// Tries these and adds the fastest to the report's changes, if it is faster than the best plan.
void addOneMoreDevice(const PlanSpace& space,
                      const std::function<Trial(const PlanChoice&)>& tryPlan,
                      PlanReport& report);

/// The plan's choice with less for devices that are busy and more for the others. Nothing if it is
/// no pipeline or cannot be shifted further.
std::optional<PlanChoice> shiftedCut(const Plan& plan);

struct SearchSettings {
  bool exhaustive = false;
  /// The share of the time that is used up; no trial begins from 1 on.
  std::function<double()> usedTime = [] { return 0.0; };
  std::function<void(const PlanProgress&)> progress = {};
  std::function<bool()> stop = [] { return false; };  ///< whether to try nothing more
};

/// Fills in what it finds: best, bound, tried, complete, and the smallest budget. `parallel` is the
/// number of kernels that can run at the same time.
void searchPlans(const PlanSpace& space,
                 const TryPlan& tryPlan,
                 double parallel,
                 const SearchSettings& settings,
                 PlanReport& report);

}  // namespace sluice
