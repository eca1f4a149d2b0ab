#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/program/verify_parts.h"

namespace sluice::program {
namespace {

/// Calls f(lane, index, task) for every task.
template <class F>
void forEachTask(const Program& p, F f) {
  for (std::size_t lane = 0; lane < p.lanes.size(); ++lane) {
    for (std::size_t index = 0; index < p.lanes[lane].tasks.size(); ++index) {
      f(lane, index, p.lanes[lane].tasks[index]);
    }
  }
}

/// The segments that write what is summed over replicas.
Table<bool> writersOfSummed(const Program& p) {
  Table<bool> summed(p.buffers.size(), false);
  for (const Collective& collective : p.collectives) {
    summed[collective.from.index()] = true;
  }
  Table<bool> writers;
  for (const Segment& segment : p.segments) {
    writers.push_back(std::ranges::any_of(segment.calls, [&](const device::KernelCall& call) {
      return std::ranges::any_of(call.outputs, [&](std::int32_t b) { return summed[b]; });
    }));
  }
  return writers;
}

/// The execution of one replica says nothing about the others: a sum waits for its operand in all
/// of them, and who overwrites the operand waits for the sum in all of them.
void sumsOverReplicas(const Program& p) {
  if (p.collectives.empty()) {
    return;
  }
  const Table<bool> writers = writersOfSummed(p);
  forEachTask(p, [&](std::size_t lane, std::size_t index, const Task& task) {
    const bool writes = task.kind == TaskKind::Run && writers[task.subject];
    if ((task.kind == TaskKind::Reduce || writes) &&
        std::ranges::none_of(p.waitsOf(task), &Wait::allReplicas)) {
      broken(p,
             "{}: it takes part in a sum over replicas and waits for none of the others",
             taskText(p, lane, index));
    }
  });
}

/// A task that comes to a barrier.
struct Member {
  std::size_t lane;
  std::size_t index;
};

void waitsForOthers(const Program& p, const Member& member, std::span<const Member> members) {
  const auto waits = p.waitsOf(p.lanes[member.lane].tasks[member.index]);
  for (const Member& other : members) {
    // Its lane has come as far as the barrier once the task before has ended, of this round or, if
    // the barrier is the first task, of the round before.
    const auto lane = static_cast<std::int32_t>(other.lane);
    const auto index = static_cast<std::int32_t>(other.index);
    const auto last = static_cast<std::int32_t>(p.lanes[other.lane].tasks.size()) - 1;
    const Wait arrival = index > 0 ? Wait{lane, index - 1, 0} : Wait{lane, last, 1};
    if (other.lane != member.lane && std::ranges::find(waits, arrival) == waits.end()) {
      broken(p,
             "{}: it does not wait for {}",
             taskText(p, member.lane, member.index),
             laneText(p, other.lane));
    }
  }
}

/// Every device of a group with kernels comes to the barrier once, and waits for all the others.
void allComeToBarriers(const Program& p) {
  const Table<std::vector<std::int32_t>>& groups = p.barriers->groups;
  Table<std::vector<Member>> members(groups.size());
  forEachTask(p, [&](std::size_t lane, std::size_t index, const Task& task) {
    if (task.kind == TaskKind::Barrier) {
      members[task.subject].push_back({lane, index});
    }
  });
  Table<std::int64_t> computesOn(p.devices.size(), 0);
  for (const Lane& lane : p.lanes) {
    computesOn[lane.device] += lane.kind == LaneKind::Compute ? 1 : 0;
  }
  for (std::size_t b = 0; b < groups.size(); ++b) {
    std::int64_t computes = 0;
    for (const std::int32_t device : std::set(groups[b].begin(), groups[b].end())) {
      computes += computesOn.has(device) ? computesOn[device] : 0;
    }
    if (std::ssize(members[b]) != computes) {
      broken(p, "barrier {}: {} of {} lanes come to it", b, members[b].size(), computes);
    }
    for (const Member& member : members[b]) {
      if (p.lanes[member.lane].kind != LaneKind::Compute) {
        broken(p, "{}: only compute lanes meet", taskText(p, member.lane, member.index));
      }
      waitsForOthers(p, member, members[b]);
    }
  }
}

/// The devices that have to meet before this task; none for kernels, barriers and messages.
std::vector<std::int32_t> meetingBefore(const Program& p, const Lane& lane, const Task& task) {
  const schedule::SyncPattern pattern = p.barriers->pattern;
  const auto devices = p.devices.count();
  switch (lane.kind) {
    case LaneKind::Compute:
    case LaneKind::Send:
    case LaneKind::Receive:
      return {};
    case LaneKind::Load:
    case LaneKind::Store:
    case LaneKind::Fetch:
    case LaneKind::Flush:
      return schedule::hostGroup(pattern, lane.device, devices);
    case LaneKind::Exchange:
      break;
  }
  const bool copies = task.kind == TaskKind::Transfer;
  const std::int32_t from = copies ? p.buffer(p.transfers[task.subject].from).device : lane.device;
  return schedule::exchangeGroup(pattern, from, lane.device, devices);
}

void exchangesBehindBarriers(const Program& p) {
  forEachTask(p, [&](std::size_t lane, std::size_t index, const Task& task) {
    const std::vector<std::int32_t> group = meetingBefore(p, p.lanes[lane], task);
    const bool behind = std::ranges::any_of(p.waitsOf(task), [&](const Wait& wait) {
      const Task& other = p.lanes[wait.lane].tasks[wait.task];
      return wait.roundsBack == 0 && other.kind == TaskKind::Barrier &&
             p.barriers->groups[other.subject] == group;
    });
    if (!group.empty() && !behind) {
      broken(p,
             "{}: no barrier of devices {} comes before it",
             taskText(p, lane, index),
             fmt::join(group, ", "));
    }
  });
}

}  // namespace

void verifyMeetings(const Program& program) {
  sumsOverReplicas(program);
  if (program.barriers) {
    allComeToBarriers(program);
    exchangesBehindBarriers(program);
  }
}

}  // namespace sluice::program
