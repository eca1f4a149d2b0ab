// The tasks of a Program, each stored with its waits, so that both can be added. Private to the
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
  Table<Wait> waits;
};
using TaskLists = Table<Table<TaskEntry>>;  // by lane

TaskLists takeApart(const Program& program);
void putTogether(const TaskLists& lists, Program& program);

/// The wait that ends when a lane of this many tasks has reached its task: it names the task before
/// it, or the last task of the previous round.
Wait waitForArrival(std::int32_t lane, std::int32_t task, std::int32_t tasksOfLane);

}  // namespace sluice::program
