#include "sluice/program/barriers.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/program/task_lists.h"
#include "sluice/program/virtual_clock.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::program {
namespace {

/// A barrier, the tasks that it lets go on, and where it stands in the lanes of its devices.
struct Meeting {
  std::int64_t time = 0;
  std::vector<std::int32_t> devices;
  std::vector<TaskPlace> exchanges;
  std::vector<TaskPlace> members;
};

/// In the order of time; one meeting for all exchanges of a group that are ready at the same time.
std::vector<Meeting> findMeetings(const Program& program,
                                  const ClockRun& clock,
                                  schedule::SyncPattern pattern) {
  std::vector<Meeting> single;
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const Lane& lane = program.lanes[l];
    for (std::size_t t = 0; t < lane.tasks.size(); ++t) {
      std::vector<std::int32_t> group = groupBefore(program, lane, lane.tasks[t], pattern);
      if (!group.empty()) {
        const TaskPlace at{static_cast<std::int32_t>(l), static_cast<std::int32_t>(t)};
        single.push_back({clock.lanes[l][t].start, std::move(group), {at}, {}});
      }
    }
  }
  std::ranges::stable_sort(
      single, {}, [](const Meeting& m) { return std::pair(m.time, m.devices); });
  std::vector<Meeting> meetings;
  for (Meeting& next : single) {
    if (!meetings.empty() && meetings.back().time == next.time &&
        meetings.back().devices == next.devices) {
      meetings.back().exchanges.push_back(next.exchanges.front());
    } else {
      meetings.push_back(std::move(next));
    }
  }
  return meetings;
}

/// Puts the barriers of a device between its kernels, in front of all that begin no earlier. Gives
/// the new place of every task of the lane.
std::vector<std::int32_t> insertBarriers(Table<TaskEntry>& entries,
                                         std::int32_t lane,
                                         std::int32_t device,
                                         std::span<const TaskSpan> spans,
                                         std::vector<Meeting>& meetings) {
  Table<TaskEntry> old = std::exchange(entries, {});
  Table<std::int32_t> places;
  std::size_t next = 0;  // meeting
  const auto addUntil = [&](std::int64_t time, const Task& neighbour) {
    for (; next < meetings.size() && meetings[next].time <= time; ++next) {
      if (std::ranges::find(meetings[next].devices, device) == meetings[next].devices.end()) {
        continue;
      }
      meetings[next].members.push_back({lane, entries.count()});
      entries.push_back({{.kind = TaskKind::Barrier,
                          .subject = static_cast<std::int32_t>(next),
                          .microBatch = neighbour.microBatch,
                          .plannedStart = neighbour.plannedStart},
                         {}});
    }
  };
  for (std::size_t t = 0; t < old.size(); ++t) {
    addUntil(spans[t].start, old[t].task);
    places.push_back(entries.count());
    entries.push_back(std::move(old[t]));
  }
  addUntil(std::numeric_limits<std::int64_t>::max(),
           entries.empty() ? Task{} : entries.back().task);
  return places;
}

/// Each member waits for what the others have in front of the barrier, each exchange for the
/// member of its own device.
void connect(const Meeting& meeting, const Program& program, TaskLists& entries) {
  const auto entryAt = [&](const TaskPlace& at) -> TaskEntry& { return entries[at.lane][at.task]; };
  for (const TaskPlace& mine : meeting.members) {
    for (const TaskPlace& other : meeting.members) {
      const auto count = static_cast<std::int32_t>(entries[other.lane].size());
      if (other.lane != mine.lane) {
        entryAt(mine).waits.push_back(waitForArrival(other.lane, other.task, count));
      }
    }
  }
  for (const TaskPlace& exchange : meeting.exchanges) {
    const std::int32_t device = program.lanes[exchange.lane].device;
    const auto own = std::ranges::find(meeting.members, device, [&](const TaskPlace& member) {
      return program.lanes[member.lane].device;
    });
    const TaskPlace& gate = own == meeting.members.end() ? meeting.members.front() : *own;
    entryAt(exchange).waits.push_back({gate.lane, gate.task, 0});
  }
}

}  // namespace

std::vector<std::int32_t> groupBefore(const Program& program,
                                      const Lane& lane,
                                      const Task& task,
                                      schedule::SyncPattern pattern) {
  const auto devices = program.devices.count();
  switch (lane.kind) {
    case LaneKind::Compute:
    case LaneKind::Send:
    case LaneKind::Receive:
      return {};
    case LaneKind::Exchange:
      return schedule::exchangeGroup(
          pattern,
          task.kind == TaskKind::Transfer
              ? program.buffer(program.transfers[task.subject].from).device
              : lane.device,
          lane.device,
          devices);
    default:
      return schedule::hostGroup(pattern, lane.device, devices);
  }
}

void addBarriers(Program& program, schedule::SyncPattern pattern) {
  SLUICE_CHECK(!program.barriers, "program '{}' has barriers", program.name);
  const ClockRun clock =
      runOnClock(program, {.segments = std::vector<std::int64_t>(program.segments.size(), 1)});
  std::vector<Meeting> meetings = findMeetings(program, clock, pattern);
  TaskLists entries = takeApart(program);
  Table<Table<std::int32_t>> places(entries.size());
  for (std::size_t l = 0; l < entries.size(); ++l) {
    const Lane& lane = program.lanes[l];
    if (lane.kind == LaneKind::Compute) {
      places[l] = insertBarriers(
          entries[l], static_cast<std::int32_t>(l), lane.device, clock.lanes[l], meetings);
    }
  }
  for (Table<TaskEntry>& lane : entries) {
    for (TaskEntry& entry : lane) {
      for (Wait& wait : entry.waits) {
        const Table<std::int32_t>& moved = places[wait.lane];
        wait.task = moved.empty() ? wait.task : moved[wait.task];
      }
    }
  }
  program.barriers = Barriers{.pattern = pattern, .groups = {}};
  for (Meeting& meeting : meetings) {
    connect(meeting, program, entries);
    program.barriers->groups.push_back(std::move(meeting.devices));
  }
  putTogether(entries, program);
}

}  // namespace sluice::program
