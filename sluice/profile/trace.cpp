#include "sluice/profile/trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/program/memory_plan.h"

namespace sluice::profile {
namespace {

using program::LaneKind;
using runtime::TaskTime;

double inMilliseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-6;
}

void addUse(const Trace& trace, const Trace::Step& step, std::vector<DeviceUse>& uses) {
  if (step.empty()) {
    return;
  }
  const std::int64_t begin = Trace::beginOf(step);
  const std::int64_t end = Trace::endOf(step);
  std::vector<std::int64_t> idleSince(uses.size(), begin);
  for (DeviceUse& use : uses) {
    use.span += end - begin;
  }
  for (const TaskTime& time : step) {
    const TracedLane& lane = trace.laneOf(time);
    const std::size_t device = trace.deviceOf(time);
    DeviceUse& use = uses[device];
    if (lane.kind == LaneKind::Exchange) {
      ++use.transfers;
      use.transferBytes += trace.subjectOf(time).bytes;
      use.transferTime += time.end - time.start;
    }
    if (lane.kind != LaneKind::Compute) {
      continue;
    }
    use.busy += time.end - time.start;
    if (time.start - idleSince[device] > use.longestWait) {
      use.longestWait = time.start - idleSince[device];
      use.waitBefore = trace.nameOf(time);
    }
    idleSince[device] = time.end;
  }
}

}  // namespace

void Trace::addStep(std::span<const TaskTime> times) {
  for (const TaskTime& time : times) {
    SLUICE_CHECK(time.lane >= 0 && static_cast<std::size_t>(time.lane) < lanes.size() &&
                     time.task >= 0 &&
                     static_cast<std::size_t>(time.task) < laneOf(time).tasks.size() &&
                     time.start <= time.end && time.replica >= 0 && time.round >= 0,
                 "the time of task {} of lane {} is not one of program '{}'",
                 time.task,
                 time.lane,
                 name);
  }
  for (const TaskTime& time : times) {
    replicas = std::max(replicas, time.replica + 1);
  }
  Step& step = steps.emplace_back(times.begin(), times.end());
  std::ranges::stable_sort(step, {}, &TaskTime::start);
}

void Trace::addKernels(std::vector<runtime::KernelSpan> times) {
  for (const runtime::KernelSpan& time : times) {
    const bool known = time.lane >= 0 && static_cast<std::size_t>(time.lane) < lanes.size() &&
                       time.task >= 0 &&
                       static_cast<std::size_t>(time.task) <
                           lanes[static_cast<std::size_t>(time.lane)].tasks.size();
    SLUICE_CHECK(known && time.kernel >= 0 && time.start <= time.end &&
                     static_cast<std::size_t>(time.kernel) < subjectOf(taskOf(time)).kernels.size(),
                 "the time of kernel {} of task {} of lane {} is not one of program '{}'",
                 time.kernel,
                 time.task,
                 time.lane,
                 name);
  }
  std::ranges::stable_sort(times, {}, &runtime::KernelSpan::start);
  kernels.resize(steps.size());
  kernels.back() = std::move(times);
}

std::int64_t Trace::endOf(const Step& step) {
  return std::ranges::max(step, {}, &TaskTime::end).end;
}

std::string Trace::labelled(const std::string& title) const {
  return simulated.empty() ? title : fmt::format("{} (simulated on {})", title, simulated);
}

std::string Trace::nameOf(const TracedTask& task) const {
  const TracedSubject& subject = subjectOf(task);
  return subject.oncePerRound ? subject.name : fmt::format("{} m{}", subject.name, task.microBatch);
}

std::string Trace::deviceName(std::size_t device) const {
  return replicas == 1 ? fmt::format("{}", device)
                       : fmt::format("{}/{}", device / devices.size(), device % devices.size());
}

std::int32_t Trace::slotOf(const TracedTask& task, std::int32_t buffer, std::int32_t round) const {
  for (const program::Slot& slot : task.slots) {
    if (slot.buffer.index() == static_cast<std::size_t>(buffer)) {
      return static_cast<std::int32_t>((slot.slot + std::int64_t{round} * microBatchesPerRound) %
                                       buffers[static_cast<std::size_t>(buffer)].slots);
    }
  }
  return 0;
}

std::vector<DeviceUse> Trace::usage() const {
  std::vector<DeviceUse> uses(numDevices());
  for (const Step& step : steps) {
    addUse(*this, step, uses);
  }
  return uses;
}

std::string Trace::summary() const {
  const std::vector<DeviceUse> uses = usage();
  const std::int64_t span = uses.empty() ? 0 : uses[0].span;
  std::string text = fmt::format("{}: {} step{} of {:.3f} ms, {} micro-batch{} per round\n",
                                 labelled(name),
                                 numSteps(),
                                 numSteps() == 1 ? "" : "s",
                                 inMilliseconds(span) / std::max(numSteps(), 1),
                                 microBatchesPerRound,
                                 microBatchesPerRound == 1 ? "" : "es");
  text += "device    busy  bubble  copies in       bytes    time of copies  longest wait\n";
  for (std::size_t d = 0; d < uses.size(); ++d) {
    const DeviceUse& use = uses[d];
    text += fmt::format("{:<6}  {:>5.1f}%  {:>5.1f}%  {:>9}  {:>10}  {:>13.3f} ms",
                        deviceName(d),
                        100 * use.busyShare(),
                        100 * use.bubble(),
                        use.transfers,
                        program::formatBytes(static_cast<std::size_t>(use.transferBytes)),
                        inMilliseconds(use.transferTime));
    if (use.longestWait > 0) {
      text += fmt::format("  {:.3f} ms before {}", inMilliseconds(use.longestWait), use.waitBefore);
    }
    text += '\n';
  }
  return text;
}

}  // namespace sluice::profile
