// The lock-step view of a pipeline: which stage of which micro-batch a device runs in which cycle,
// how many micro-batches the original systems require, and how deep their queues are. Only
// Sequential, Grouped, Interleaved and Popart have this view; the functions below throw
// InvalidArgument for other kinds. Orders run event-driven (pipeline.h) and need none of these
// rules: the caller decides what is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/schedule/pipeline.h"

namespace sluice::schedule {

/// One stage at work. Popart numbers the stages of both passes in one sequence, in which the last
/// forward stage is also the first backward stage: its cells have the letter 'S', those of other
/// kinds 'F' or 'B'.
struct Cell {
  char letter = 'F';
  std::int32_t stage = 0;
  std::int32_t microBatch = 0;
  bool operator==(const Cell&) const = default;
};

struct CycleTable {
  PipelineKind kind = PipelineKind::Sequential;
  std::int32_t cycles = 0;
  /// [device][cycle]: the cells that the device runs in the cycle, in order; usually none or one.
  std::vector<std::vector<std::vector<Cell>>> devices;
};

/// All cells for the micro-batches of the problem. Costs and bytes do not matter.
CycleTable cycleTable(PipelineKind kind, const PipelineProblem& problem);

/// The cells of one cycle as text: "F0(3) B0(0)", "-" for none.
std::string cellText(const std::vector<Cell>& cells);

/// The cycles before the last stage first runs (fill), from then until the first stage last runs
/// (main), and after that (flush); main may be 0. In Grouped and Popart all stages run in every
/// cycle of main.
struct CyclePhases {
  std::int32_t fill = 0;
  std::int32_t main = 0;
  std::int32_t flush = 0;
  std::int32_t allDevicesBusy = 0;  ///< cycles in which every device with stages works
  double rampShare = 0;             ///< share of the cycles in which a given stage does not run
};
CyclePhases cyclePhases(PipelineKind kind, const PipelineProblem& problem);

/// What the original system requires of the number of micro-batches.
struct CountRule {
  std::int32_t minimum = 1;
  std::int32_t multiple = 1;
};
CountRule countRule(PipelineKind kind, const PipelineProblem& problem);

/// Why the original system would refuse this number of micro-batches; nullopt if it accepts it.
std::optional<std::string> countObjection(PipelineKind kind, const PipelineProblem& problem);

/// Per stage, the number of entries of the queue between the forward and the backward pass: the
/// micro-batches whose forward cycle lies strictly between the two cycles of another micro-batch.
std::vector<std::int32_t> fifoDepths(PipelineKind kind, const PipelineProblem& problem);

/// Per stage, the most micro-batches between their forward and backward cycles, both included.
std::vector<std::int32_t> inFlight(PipelineKind kind, const PipelineProblem& problem);

/// Per stage, the number of entries of PopART's stash: the cycles from the stage to its backward
/// pass, both included; 0 if both passes run in one cycle.
std::vector<std::int32_t> stashEntries(const PipelineProblem& problem);

/// `devicesOfStep` lists the devices that work in each step. Returns the largest set of rotations
/// of this list such that no two rotations use the same device in the same step; of several such
/// sets, the lexicographically first. Micro-batch m starts at steps * (m / n) + rotation[m % n],
/// where n is the size of the set.
std::vector<std::int32_t> overlapRotations(
    const std::vector<std::vector<std::int32_t>>& devicesOfStep);

}  // namespace sluice::schedule
