#include "sluice/api/lowering.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sluice/api/remedies.h"
#include "sluice/base/error.h"
#include "sluice/program/memory_plan.h"

namespace sluice {
namespace {

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

/// Phased execution as it needs the least memory, which is what it falls back to on its own.
Lowered planLeast(const LoweringRequest& request,
                  const device::KernelTable& kernels,
                  const program::StatePlan& state) {
  LoweringRequest one = request;
  const PhaseIo io = phaseIos(request.strategy).back();
  one.plan.overlap = io.overlap;
  one.plan.phaseSchedule = io.schedule;
  std::optional<OutOfMemory> tooLarge;
  for (const parallel::StreamOrder order : streamOrders(request.strategy)) {
    one.plan.phaseOrder = order;
    try {
      return planOnce(one, kernels, state);
    } catch (const OutOfMemory& error) {
      tooLarge = error;
    }
  }
  throw OutOfMemory(*tooLarge);
}

/// The changes that fit, a line each.
std::string whatFits(const LoweringRequest& request,
                     const device::KernelTable& kernels,
                     const program::StatePlan& state) {
  std::string text;
  std::set<Remedy::Family> fitting;
  for (const Remedy& remedy : remediesFor(request)) {
    if (fitting.contains(remedy.family)) {
      continue;
    }
    try {
      const LoweringRequest changed{request.graph, remedy.strategy, remedy.plan, request.lower};
      const Lowered made = remedy.family == Remedy::kPhases ? planLeast(changed, kernels, state)
                                                            : plan(changed, kernels, state);
      if (request.remoteBytes != 0 && made.program.remote.totalBytes() > request.remoteBytes) {
        continue;
      }
      if (remedy.family != Remedy::kNone) {
        fitting.insert(remedy.family);
      }
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

}  // namespace sluice
