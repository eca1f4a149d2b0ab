// The tasks of a Program with their waits beside them, so that both can be added to. Private to the
// program module.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

struct TaskPlace {
  std::int32_t lane = 0;
  std::int32_t task = 0;

  auto operator<=>(const TaskPlace&) const = default;
};

struct TaskEntry {
  Task task;
  std::vector<Wait> waits;
};
using TaskLists = std::vector<std::vector<TaskEntry>>;  // by lane

TaskLists takeApart(const Program& program);
void putTogether(const TaskLists& lists, Program& program);

/// What to wait for so that a lane of this many tasks has come as far as its task: the one in front
/// of it, or the last of the round before.
Wait waitForArrival(std::int32_t lane, std::int32_t task, std::int32_t tasksOfLane);

}  // namespace sluice::program
