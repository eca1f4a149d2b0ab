#include "sluice/schedule/lock_step.h"

#include <algorithm>

#include <fmt/core.h>

#include "sluice/base/error.h"
#include "sluice/schedule/clock.h"
#include "sluice/schedule/orders.h"

namespace sluice::schedule {
namespace {

/// Tables are for people; a larger one is a mistake.
constexpr std::int64_t kMostCells = std::int64_t{1} << 26;

std::int64_t numCycles(const Clock& clock, const CheckedProblem& checked) {
  return clock.start(checked.microBatches() - 1) + clock.steps;
}

Cell cellOf(const Clock& clock,
            const CheckedProblem& checked,
            PipelineKind kind,
            const Piece& piece) {
  if (kind == PipelineKind::Popart) {
    return {'S', clock.step(checked, piece.kind, piece.stage), piece.microBatch};
  }
  return {piece.kind == WorkKind::Forward ? 'F' : 'B', piece.stage, piece.microBatch};
}

/// Calls visit(stage, lag) with the cycles between the two passes of every stage.
template <class Visit>
void eachLag(const Clock& clock, const CheckedProblem& checked, Visit visit) {
  for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
    visit(stage,
          checked.training() ? clock.step(checked, WorkKind::Backward, stage) -
                                   clock.step(checked, WorkKind::Forward, stage)
                             : 0);
  }
}

/// The most starts in any window of `width` cycles that begins with one.
std::int32_t mostStarts(const Clock& clock, std::int32_t width) {
  std::int32_t most = 0;
  std::int32_t end = 0;
  for (std::int32_t begin = 0; begin < clock.overlap(); ++begin) {
    end = std::max(end, begin);
    while (clock.start(end) < clock.start(begin) + width) {
      ++end;
    }
    most = std::max(most, end - begin);
  }
  return most;
}

}  // namespace

CycleTable cycleTable(PipelineKind kind, const PipelineProblem& problem) {
  const CheckedProblem checked(problem, false);
  const Clock clock = clockOf(kind, checked);
  const std::int64_t cycles = numCycles(clock, checked);
  if (cycles * checked.numDevices() > kMostCells) {
    raise<InvalidArgument>(
        "schedule: a table of {} cycles and {} devices is too large", cycles, checked.numDevices());
  }
  CycleTable table{.kind = kind, .cycles = static_cast<std::int32_t>(cycles)};
  const Orders orders = lockStepOrders(kind, checked);
  for (const auto& order : orders) {
    auto& row = table.devices.emplace_back(static_cast<std::size_t>(cycles));
    for (const Piece& piece : order) {
      auto& cells = row[static_cast<std::size_t>(clock.cycle(checked, piece))];
      const Cell cell = cellOf(clock, checked, kind, piece);
      // The two passes of a merged stage are one cell.
      if (cells.empty() || cells.back() != cell) {
        cells.push_back(cell);
      }
    }
  }
  return table;
}

std::string cellText(const std::vector<Cell>& cells) {
  std::string text;
  for (const Cell& cell : cells) {
    text += fmt::format(
        "{}{}{}({})", text.empty() ? "" : " ", cell.letter, cell.stage, cell.microBatch);
  }
  return text.empty() ? "-" : text;
}

CyclePhases cyclePhases(PipelineKind kind, const PipelineProblem& problem) {
  const CheckedProblem checked(problem, false);
  const Clock clock = clockOf(kind, checked);
  const auto cycles = static_cast<std::int32_t>(numCycles(clock, checked));
  const std::int32_t ramp = clock.steps - 1;
  CyclePhases phases;
  phases.fill = std::min(ramp, cycles - ramp);
  phases.main = std::max(0, cycles - 2 * ramp);
  phases.flush = cycles - phases.fill - phases.main;
  phases.rampShare = static_cast<double>(cycles - checked.microBatches()) / cycles;
  const CycleTable table = cycleTable(kind, problem);
  for (std::size_t cycle = 0; cycle < static_cast<std::size_t>(cycles); ++cycle) {
    std::int32_t busy = 0;
    for (const auto& device : table.devices) {
      busy += device[cycle].empty() ? 0 : 1;
    }
    phases.allDevicesBusy += busy == checked.numUsedDevices() ? 1 : 0;
  }
  return phases;
}

CountRule countRule(PipelineKind kind, const PipelineProblem& problem) {
  const CheckedProblem checked(problem, false);
  const Clock clock = clockOf(kind, checked);
  if (kind == PipelineKind::Popart) {
    return {.minimum = clock.steps, .multiple = 1};
  }
  return {.minimum = clock.overlap(), .multiple = clock.overlap()};
}

std::optional<std::string> countObjection(PipelineKind kind, const PipelineProblem& problem) {
  const CountRule rule = countRule(kind, problem);
  if (problem.microBatches % rule.multiple != 0) {
    return fmt::format("{}: expected a multiple of {} micro-batches for {} stages, got {}",
                       name(kind),
                       rule.multiple,
                       problem.deviceOfStage.size(),
                       problem.microBatches);
  }
  if (problem.microBatches < rule.minimum) {
    return fmt::format("{}: expected at least {} micro-batches for {} stages, got {}",
                       name(kind),
                       rule.minimum,
                       problem.deviceOfStage.size(),
                       problem.microBatches);
  }
  return std::nullopt;
}

std::vector<std::int32_t> fifoDepths(PipelineKind kind, const PipelineProblem& problem) {
  const CheckedProblem checked(problem, false);
  const Clock clock = clockOf(kind, checked);
  std::vector<std::int32_t> depths;
  eachLag(clock, checked, [&](std::int32_t, std::int32_t lag) {
    depths.push_back(std::max(0, mostStarts(clock, lag) - 1));
  });
  return depths;
}

std::vector<std::int32_t> inFlight(PipelineKind kind, const PipelineProblem& problem) {
  const CheckedProblem checked(problem, false);
  const Clock clock = clockOf(kind, checked);
  std::vector<std::int32_t> counts;
  eachLag(clock, checked, [&](std::int32_t, std::int32_t lag) {
    counts.push_back(mostStarts(clock, lag + 1));
  });
  return counts;
}

std::vector<std::int32_t> stashEntries(const PipelineProblem& problem) {
  const CheckedProblem checked(problem, false);
  const Clock clock = clockOf(PipelineKind::Popart, checked);
  std::vector<std::int32_t> entries;
  eachLag(clock, checked, [&](std::int32_t, std::int32_t lag) {
    entries.push_back(lag == 0 ? 0 : lag + 1);
  });
  return entries;
}

}  // namespace sluice::schedule
