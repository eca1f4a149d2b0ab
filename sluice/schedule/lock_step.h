// The lock-step view of a pipeline: which stage of which micro-batch a device holds in which cycle,
// how many micro-batches the original systems ask for, and how deep their queues are. Sequential,
// Grouped, Interleaved and Popart have it; the other kinds throw InvalidArgument here. Orders run
// event-driven (pipeline.h) and need none of these rules: the caller decides what is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// One stage at work. Popart numbers the stages of both passes in one sequence, in which the last
/// forward and the first backward stage are one: its cells say 'S', those of others 'F' or 'B'.
struct Cell {
  char letter = 'F';
  std::int32_t stage = 0;
  std::int32_t microBatch = 0;
  bool operator==(const Cell&) const = default;
};

struct CycleTable {
  PipelineKind kind = PipelineKind::Sequential;
  std::int32_t cycles = 0;
  /// [device][cycle]: what the device runs in the cycle, in this order; mostly none or one.
  std::vector<std::vector<std::vector<Cell>>> devices;
};

/// All cells of the problem's micro-batches. Costs and bytes do not matter.
CycleTable cycleTable(PipelineKind kind, const PipelineProblem& problem);

/// The cells of one cycle as the tables of the guides write them: "F0(3) B0(0)", "-" for none.
std::string cellText(const std::vector<Cell>& cells);

/// The cycles before the last stage first runs, from then until the first stage last runs, and
/// after that; main may be 0. In Grouped and Popart all stages run in every cycle of main.
struct CyclePhases {
  std::int32_t fill = 0;
  std::int32_t main = 0;
  std::int32_t flush = 0;
  std::int32_t allDevicesBusy = 0;  ///< cycles in which every device that has stages works
  double rampShare = 0;             ///< share of the cycles in which a given stage does not run
};
CyclePhases cyclePhases(PipelineKind kind, const PipelineProblem& problem);

/// What the original system requires of the number of micro-batches.
struct CountRule {
  std::int32_t minimum = 1;
  std::int32_t multiple = 1;
};
CountRule countRule(PipelineKind kind, const PipelineProblem& problem);

/// Why the original system would refuse the problem's number of micro-batches; nothing if it would
/// not.
std::optional<std::string> countObjection(PipelineKind kind, const PipelineProblem& problem);

/// Per stage: entries of the queue between the forward and the backward pass, that is micro-batches
/// whose forward cycle lies strictly between the two cycles of another.
std::vector<std::int32_t> fifoDepths(PipelineKind kind, const PipelineProblem& problem);

/// Per stage: most micro-batches between their forward and their backward cycle, both included.
std::vector<std::int32_t> inFlight(PipelineKind kind, const PipelineProblem& problem);

/// Per stage: entries of PopART's stash, the cycles from the stage to its backward pass inclusive;
/// 0 where both passes run in one cycle.
std::vector<std::int32_t> stashEntries(const PipelineProblem& problem);

/// The largest set of rotations of a list of devices (one entry per step, the devices that work in
/// it) of which no two ever hold one device in the same step; of several the lexicographically
/// first. Micro-batch m starts at steps * (m / n) + rotation[m % n].
std::vector<std::int32_t> overlapRotations(
    const std::vector<std::vector<std::int32_t>>& devicesOfStep);

}  // namespace sluice::schedule
