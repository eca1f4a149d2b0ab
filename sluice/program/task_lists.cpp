#include "sluice/program/task_lists.h"

namespace sluice::program {

TaskLists takeApart(const Program& program) {
  TaskLists lists(program.lanes.size());
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    for (const Task& task : program.lanes[l].tasks) {
      const std::span<const Wait> waits = program.waitsOf(task);
      lists[l].push_back({task, {waits.begin(), waits.end()}});
    }
  }
  return lists;
}

void putTogether(const TaskLists& lists, Program& program) {
  program.waits.clear();
  for (std::size_t l = 0; l < lists.size(); ++l) {
    program.lanes[l].tasks.clear();
    for (const TaskEntry& entry : lists[l]) {
      Task& task = program.lanes[l].tasks.emplace_back(entry.task);
      task.firstWait = program.waits.count();
      task.numWaits = entry.waits.count();
      program.waits.insert(program.waits.end(), entry.waits.begin(), entry.waits.end());
    }
  }
}

Wait waitForArrival(std::int32_t lane, std::int32_t task, std::int32_t tasksOfLane) {
  return task > 0 ? Wait{lane, task - 1, 0} : Wait{lane, tasksOfLane - 1, 1};
}

}  // namespace sluice::program
