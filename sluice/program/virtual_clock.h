// Runs a Program on a virtual clock: does in integers what the Engine does with threads. A lane
// runs its tasks in order; a task starts when its lane is free and everything that it waits for has
// ended. Nothing is computed, so the times and the slots in use are those of the plan itself.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

/// How long tasks take. Tasks of a kind whose list is empty take no time, and so do all kinds that
/// have no list here.
struct ClockCosts {
  Table<std::int64_t> segments;        ///< by segment
  Table<std::int64_t> transfers = {};  ///< by transfer
  Table<std::int64_t> feeds = {};      ///< by input
  Table<std::int64_t> drains = {};     ///< by output
};

struct TaskSpan {
  std::int64_t start = 0;
  std::int64_t end = 0;
  bool operator==(const TaskSpan&) const = default;
};

struct ClockRun {
  /// By lane: its tasks, round after round.
  std::vector<std::vector<TaskSpan>> lanes;
  /// By round: from the first start to the last end of a segment of the loop.
  Table<TaskSpan> loops;
  std::int64_t end = 0;  ///< of the last task
  /// By buffer: the most slots that held a value with reads still to come at one time; 0 for
  /// buffers that are not rings.
  std::vector<std::int32_t> slotsInUse;
};

/// Throws InternalError, naming lanes and tasks, if the lanes block each other.
ClockRun runOnClock(const Program& program, const ClockCosts& costs, std::int32_t rounds = 1);

}  // namespace sluice::program
