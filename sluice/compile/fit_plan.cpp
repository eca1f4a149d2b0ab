#include "sluice/compile/fit_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/compile/remedies.h"
#include "sluice/program/memory_plan.h"

namespace sluice::compiler {
namespace {

using parallel::Strategy;

/// What a plan is tried with.
struct Attempt {
  Strategy strategy;
  parallel::PlanOptions plan;
  bool packsInLoop = false;
  bool keepsPacked = false;
  bool limited = true;  ///< by the byte budget
};

/// Who tries plans, of the settings given or of others.
struct Planner {
  const Compilation& step;  ///< all passes done, not placed
  Runner& runner;
  bool given = true;  ///< rules are those of the settings given
};

Compilation planOnce(const Planner& planner,
                     const Attempt& attempt,
                     CompilePhase last = CompilePhase::Lower) {
  Compilation made = planner.step;
  made.draft = parallel::PlanDraft{attempt.strategy, attempt.plan};
  made.lower.packsInLoop = attempt.packsInLoop;
  made.lower.keepsPacked = attempt.keepsPacked;
  if (!attempt.limited) {
    made.lower.memoryPerDevice = 0;
  }
  made.checksRules = planner.given;
  planner.runner.run(made, CompilePhase::Plan, last);
  return made;
}

bool trains(const ir::Graph& graph) {
  return std::ranges::any_of(
      graph.order(), [&](ir::OpId id) { return graph.op(id).place.pass != ir::Pass::Forward; });
}

/// Variables whose storage is changed have a copy from step to step, or while the loop runs. Where
/// there is no room for these, each step or each micro-batch makes them anew: the same bits in more
/// time.
Compilation planInRoom(const Planner& planner, Attempt attempt) {
  attempt.keepsPacked = !trains(planner.step.graph);
  if (attempt.keepsPacked) {
    try {
      return planOnce(planner, attempt);
    } catch (const OutOfMemory&) {
      attempt.keepsPacked = false;
    }
  }
  try {
    return planOnce(planner, attempt);
  } catch (const OutOfMemory&) {
    attempt.packsInLoop = true;
    return planOnce(planner, attempt);
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

Attempt with(const PhaseIo& io, parallel::StreamOrder order, Attempt attempt) {
  attempt.plan.phaseOrder = order;
  attempt.plan.overlap = io.overlap;
  attempt.plan.phaseSchedule = io.schedule;
  return attempt;
}

/// Of phased execution the order that moves fewer bytes, of those that fit; none fits: the same
/// with updates, then phases, that load less ahead; else what the last one says.
Compilation planPhases(const Planner& planner, const Attempt& attempt) {
  std::optional<Compilation> best;
  std::optional<OutOfMemory> tooLarge;
  for (const PhaseIo& io : phaseIos(attempt.strategy)) {
    for (const parallel::StreamOrder order : streamOrders(attempt.strategy)) {
      try {
        Compilation made = planOnce(planner, with(io, order, attempt));
        if (!best || program::remoteBytesPerRound(made.program) <
                         program::remoteBytesPerRound(best->program)) {
          best.emplace(std::move(made));
        }
      } catch (const OutOfMemory& error) {
        tooLarge = error;
      }
    }
    if (best) {
      planner.runner.dumpAgain(*best);  // the last one that was tried may be another
      return std::move(*best);
    }
  }
  throw OutOfMemory(*tooLarge);
}

Compilation plan(const Planner& planner, const Attempt& attempt) {
  return parallel::isPhased(attempt.strategy.kind()) ? planPhases(planner, attempt)
                                                     : planInRoom(planner, attempt);
}

/// Phased execution as it needs the least memory, which is what it falls back to on its own.
Compilation planLeast(const Planner& planner, const Attempt& attempt) {
  const PhaseIo io = phaseIos(attempt.strategy).back();
  std::optional<OutOfMemory> tooLarge;
  for (const parallel::StreamOrder order : streamOrders(attempt.strategy)) {
    try {
      return planOnce(planner, with(io, order, attempt));
    } catch (const OutOfMemory& error) {
      tooLarge = error;
    }
  }
  throw OutOfMemory(*tooLarge);
}

/// Bytes that the backward of each stage keeps of its forward, without recomputation.
std::vector<std::int64_t> stashOf(const Planner& planner, const Attempt& attempt) {
  Compilation made = planner.step;
  made.state = {};
  made.draft = parallel::PlanDraft{attempt.strategy, {.microBatches = attempt.plan.microBatches}};
  made.checksRules = planner.given;
  planner.runner.run(made, CompilePhase::Plan, CompilePhase::Plan);
  std::vector<std::int64_t> bytes;
  for (const parallel::StageWork& work : made.draft->plan.work) {
    bytes.push_back(work.stashBytes);
  }
  return bytes;
}

TooLarge tooLargeOf(const Planner& planner, const Attempt& attempt) {
  return {planner.step.graph, attempt.strategy, attempt.plan, [&] {
            return stashOf(planner, attempt);
          }};
}

/// The changes that fit, a line each.
std::string whatFits(const Planner& planner, const Attempt& given) {
  const std::size_t remoteBytes = planner.step.request.remoteBytes;
  std::string text;
  std::set<Remedy::Family> fitting;
  for (const Remedy& remedy : remediesFor(tooLargeOf(planner, given))) {
    if (fitting.contains(remedy.family)) {
      continue;
    }
    try {
      const Attempt changed{remedy.strategy, remedy.plan};
      const Compilation made = remedy.family == Remedy::Family::Phases ? planLeast(planner, changed)
                                                                       : plan(planner, changed);
      if (remoteBytes != 0 && made.program.remote.totalBytes() > remoteBytes) {
        continue;
      }
      if (remedy.family != Remedy::Family::None) {
        fitting.insert(remedy.family);
      }
      text += fmt::format("\n  {}: at most {} on a device",
                          remedy.text,
                          program::formatBytes(largestOf(made.program)));
    } catch (const Cancelled&) {
      throw;
    } catch (const Error&) {
      continue;  // over the budget, too, or not possible for this model
    }
  }
  return text;
}

/// The least that any of the phased plans needs, with its setting.
std::string smallestBudget(const Planner& planner, const Attempt& given) {
  std::vector<Remedy> all = remediesForPhases(tooLargeOf(planner, given));
  all.push_back({"the settings given", given.strategy, given.plan});
  std::size_t least = std::numeric_limits<std::size_t>::max();
  std::string setting;
  for (const Remedy& remedy : all) {
    for (const parallel::StreamOrder order : streamOrders(remedy.strategy)) {
      Attempt attempt =
          with(phaseIos(remedy.strategy).back(), order, Attempt{remedy.strategy, remedy.plan});
      attempt.limited = false;
      const Compilation made = planOnce(planner, attempt);
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

/// Whether the ops say themselves where they run, as those of a Builder may.
bool isAnnotated(const Compilation& step) {
  if (step.request.phases) {
    return true;
  }
  const ir::Graph& graph = step.graph;
  const bool cut = step.request.strategy.automaticDevices() > 0;  // whatever the blocks say
  return (graph.blocks().empty() || cut) && step.request.usesAnnotations &&
         std::ranges::any_of(graph.order(), [&](ir::OpId id) {
           const ir::Op& op = graph.op(id);
           return op.place.pass == ir::Pass::Forward && op.place.stage >= 0;
         });
}

bool hasBackward(const ir::Graph& graph) {
  return std::ranges::any_of(
      graph.order(), [&](ir::OpId id) { return graph.op(id).place.pass == ir::Pass::Backward; });
}

/// The settings of the request, by what the finished graph has.
Attempt givenSettings(const Compilation& step) {
  const CompileRequest& request = step.request;
  const bool annotated = isAnnotated(step);
  const bool sharded = annotated && !request.phases && !request.pipelinesAnnotated;
  Attempt given{sharded ? Strategy(parallel::ShardedExecution()) : request.strategy, request.plan};
  given.plan.microBatches = request.microBatches;
  given.plan.annotated = annotated;
  given.plan.continuous = request.plan.continuous && hasBackward(step.graph);
  return given;
}

}  // namespace

Compilation planFirst(const Compilation& step, Runner& runner) {
  const Attempt given = givenSettings(step);
  const Strategy& strategy = given.strategy;
  const bool phased = parallel::isPhased(strategy.kind());
  return planOnce({step, runner},
                  phased ? with(phaseIos(strategy)[0], streamOrders(strategy)[0], given) : given,
                  CompilePhase::Plan);
}

Compilation fitPlan(const Compilation& step, Runner& runner) {
  const Attempt given = givenSettings(step);
  try {
    return plan({step, runner}, given);
  } catch (const OutOfMemory& error) {
    if (!step.request.proposes) {
      throw;
    }
    Runner silent = runner.silent();
    const Planner others{step, silent, false};
    const std::string fits = whatFits(others, given);
    if (fits.empty() && parallel::isPhased(given.strategy.kind())) {
      raise<OutOfMemory>("{}\n{}", error.message(), smallestBudget(others, given));
    }
    raise<OutOfMemory>(
        "{}\n{}{}",
        error.message(),
        fits.empty()
            ? "no other schedule, recomputation, cut, off-chip state or "
              "phases that were planned fit: use more devices, smaller micro-batches or a smaller "
              "model"
            : "these changes were planned and fit:",
        fits);
  }
}

}  // namespace sluice::compiler
