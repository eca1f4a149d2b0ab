#include "sluice/profile/trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/program/memory_plan.h"

namespace sluice::profile {
namespace {

using program::LaneKind;
using program::Program;
using program::Task;
using program::TaskKind;
using program::Wait;
using runtime::TaskTime;

/// The kernels that a transfer waits for and that ran on the device it comes from; of several the
/// last one in that device's order.
Wait producerOf(const Program& program, const Task& transfer) {
  const auto& record = program.transfers[static_cast<std::size_t>(transfer.subject)];
  const std::int32_t source = program.buffer(record.from).device;
  Wait producer{.lane = -1};
  for (const Wait& wait : program.waitsOf(transfer)) {
    const program::Lane& lane = program.lanes[static_cast<std::size_t>(wait.lane)];
    if (wait.roundsBack == 0 && lane.kind == LaneKind::Compute && lane.device == source &&
        (producer.lane < 0 || wait.task > producer.task)) {
      producer = wait;
    }
  }
  return producer;
}

std::string laneName(const program::Lane& lane) {
  return lane.kind == LaneKind::Exchange ? fmt::format("exchange from {}", lane.peer)
                                         : std::string(program::name(lane.kind));
}

double milliseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-6;
}

}  // namespace

Trace::Trace(const Program& program)
    : program_(program.name),
      microBatchesPerRound_(program.microBatchesPerRound),
      devices_(program.devices.size()) {
  for (const program::Lane& lane : program.lanes) {
    TracedLane& info = lanes_.emplace_back(TracedLane{lane.device, lane.kind, laneName(lane), {}});
    for (const Task& task : lane.tasks) {
      info.tasks.push_back(describe(program, task));
    }
  }
}

TracedTask Trace::describe(const Program& program, const Task& task) {
  TracedTask info{.name = program::subjectName(program, task),
                  .category = program::name(task.kind),
                  .microBatch = task.microBatch};
  const auto subject = static_cast<std::size_t>(task.subject);
  if (task.kind == TaskKind::Run) {
    const program::Segment& segment = program.segments[subject];
    info.category = parallel::name(segment.kind);
    info.stage = segment.oncePerRound() ? -1 : segment.stage;
    info.microBatch = segment.oncePerRound() ? -1 : task.microBatch;
  } else {
    info.name = fmt::format("{} {}", info.category, info.name);
  }
  if (task.kind == TaskKind::Transfer) {
    const program::Transfer& transfer = program.transfers[subject];
    info.microBatch = transfer.oncePerRound ? -1 : task.microBatch;
    info.bytes = static_cast<std::int64_t>(transfer.bytes);
    info.producer = producerOf(program, task);
  }
  if (task.kind == TaskKind::Reduce && program.collectives[subject].oncePerRound) {
    info.microBatch = -1;
  }
  if (info.microBatch >= 0) {
    info.name += fmt::format(" m{}", info.microBatch);
  }
  return info;
}

void Trace::addStep(std::span<const TaskTime> times) {
  for (const TaskTime& time : times) {
    SLUICE_CHECK(time.lane >= 0 && static_cast<std::size_t>(time.lane) < lanes_.size() &&
                     time.task >= 0 &&
                     static_cast<std::size_t>(time.task) < laneOf(time).tasks.size() &&
                     time.start <= time.end && time.replica >= 0,
                 "the time of task {} of lane {} is not one of program '{}'",
                 time.task,
                 time.lane,
                 program_);
  }
  for (const TaskTime& time : times) {
    replicas_ = std::max(replicas_, static_cast<std::size_t>(time.replica) + 1);
  }
  Step& step = steps_.emplace_back(times.begin(), times.end());
  std::ranges::stable_sort(step, {}, &TaskTime::start);
}

std::string Trace::deviceName(std::size_t device) const {
  return replicas_ == 1 ? fmt::format("{}", device)
                        : fmt::format("{}/{}", device / devices_, device % devices_);
}

void Trace::addUse(const Step& step, std::vector<DeviceUse>& uses) const {
  if (step.empty()) {
    return;
  }
  const std::int64_t begin = step.front().start;
  const std::int64_t end = std::ranges::max(step, {}, &TaskTime::end).end;
  std::vector<std::int64_t> idleSince(uses.size(), begin);
  for (DeviceUse& use : uses) {
    use.span += end - begin;
  }
  for (const TaskTime& time : step) {
    const TracedLane& lane = laneOf(time);
    const std::size_t device = deviceOf(time);
    DeviceUse& use = uses[device];
    if (lane.kind == LaneKind::Exchange) {
      ++use.transfers;
      use.transferBytes += taskOf(time).bytes;
      use.transferTime += time.end - time.start;
    }
    if (lane.kind != LaneKind::Compute) {
      continue;
    }
    use.busy += time.end - time.start;
    if (time.start - idleSince[device] > use.longestWait) {
      use.longestWait = time.start - idleSince[device];
      use.waitBefore = taskOf(time).name;
    }
    idleSince[device] = time.end;
  }
}

std::vector<DeviceUse> Trace::usage() const {
  std::vector<DeviceUse> uses(replicas_ * devices_);
  for (const Step& step : steps_) {
    addUse(step, uses);
  }
  return uses;
}

std::string Trace::summary() const {
  const std::vector<DeviceUse> uses = usage();
  const std::int64_t span = uses.empty() ? 0 : uses[0].span;
  std::string text = fmt::format("{}: {} step{} of {:.3f} ms, {} micro-batch{} per round\n",
                                 program_,
                                 steps(),
                                 steps() == 1 ? "" : "s",
                                 milliseconds(span) / std::max(steps(), 1),
                                 microBatchesPerRound_,
                                 microBatchesPerRound_ == 1 ? "" : "es");
  text += "device    busy  bubble  copies in       bytes    time of copies  longest wait\n";
  for (std::size_t d = 0; d < uses.size(); ++d) {
    const DeviceUse& use = uses[d];
    text += fmt::format("{:<6}  {:>5.1f}%  {:>5.1f}%  {:>9}  {:>10}  {:>13.3f} ms",
                        deviceName(d),
                        100 * use.busyShare(),
                        100 * use.bubble(),
                        use.transfers,
                        program::formatBytes(static_cast<std::size_t>(use.transferBytes)),
                        milliseconds(use.transferTime));
    if (use.longestWait > 0) {
      text += fmt::format("  {:.3f} ms before {}", milliseconds(use.longestWait), use.waitBefore);
    }
    text += '\n';
  }
  return text;
}

}  // namespace sluice::profile
