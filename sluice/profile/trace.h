// Trace: what ran when, over several steps of one Program, with all that a reader has to know about
// that Program: its lanes, tasks, waits, buffers and bytes. It is made from the Program and the
// times that the Engine notes (or a virtual clock), and it is a value: it can be written to a file
// (trace_file.h), explained (explain.h) and shown (report.h) long after the Program is gone. With
// replicas, the devices of the first replica come first, then those of the next.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/kernel_log.h"
#include "sluice/runtime/write_log.h"

namespace sluice::profile {

/// One device over all traced steps; times in nanoseconds.
struct DeviceUse {
  std::int64_t span = 0;           ///< from any device's first task to the last, summed over steps
  std::int64_t busy = 0;           ///< time in which kernels ran
  std::int64_t transfers = 0;      ///< copies from other devices
  std::int64_t transferBytes = 0;  ///< bytes of these copies
  std::int64_t transferTime = 0;
  std::int64_t longestWait = 0;  ///< longest time in a step without a kernel, up to the next one
  std::string waitBefore;        ///< the task at the end of that wait, "backward 0 m3"

  double busyShare() const {
    return span == 0 ? 0 : static_cast<double>(busy) / static_cast<double>(span);
  }
  /// The share of the time in which no kernel ran: waiting, filling and draining.
  double bubble() const { return span == 0 ? 0 : 1 - busyShare(); }

  bool operator==(const DeviceUse&) const = default;
};

/// Planned memory of a device.
struct TracedDevice {
  std::int64_t ownBytes = 0;
  std::int64_t stateBytes = 0;
  std::int64_t transientBytes = 0;
};

/// A buffer that is state or that several subjects use.
struct TracedBuffer {
  std::string name;
  std::int32_t device = 0;
  bool state = false;
  std::int64_t bytes = 0;  ///< bytes of one slot
  std::int32_t slots = 1;
};

struct Touch {
  std::int32_t buffer = 0;
  bool reads = false;
  bool writes = false;
  bool operator==(const Touch&) const = default;
};

/// A kernel that a subject runs, and what it has to do at least.
struct TracedKernel {
  std::string name;        ///< "conv2/conv (conv, windows)"
  std::int64_t flops = 0;  ///< multiplications and additions
  std::int64_t bytes = 0;  ///< that it reads and writes
  std::int64_t limit = 0;  ///< picoseconds that its device needs at its highest rates; 0: not known
  bool operator==(const TracedKernel&) const = default;
};

/// Seconds that a kernel takes on a device of the first replica at its highest rates; 0: not known.
using KernelLimit = std::function<double(std::int32_t device, const device::KernelCall& call)>;

/// What tasks do; many tasks have the same subject.
struct TracedSubject {
  program::TaskKind kind = program::TaskKind::Run;
  std::string name;              ///< "forward 2", "transfer tanh"
  std::string category;          ///< the kind of the task or of its segment: it has its own colour
  std::int32_t stage = -1;       ///< -1: none
  bool oncePerRound = false;     ///< its tasks belong to no micro-batch
  std::int64_t bytes = 0;        ///< bytes that one task copies; 0 for other tasks
  program::DrainRule rule = {};  ///< only for drains
  std::vector<Touch> touches;    ///< of buffers on devices, transient ones only
  std::int64_t workBytes = 0;    ///< the most that buffers used by no other subject take
  std::vector<TracedKernel> kernels;  ///< empty: runs none
};

struct TracedTask {
  std::int32_t subject = 0;
  std::int32_t microBatch = 0;  ///< within the round
  std::vector<program::Wait> waits;
  std::vector<program::Slot> slots;  ///< their buffers are numbers of the trace
};

struct TracedLane {
  std::int32_t device = 0;
  program::LaneKind kind = program::LaneKind::Compute;
  std::string name;
  std::vector<TracedTask> tasks;
  std::int32_t peer = -1;  ///< Exchange: the device that copies come from
};

struct Trace {
  using Step = std::vector<runtime::TaskTime>;  ///< by start

  Trace() = default;
  /// Without `limit`, no limits of kernels are known.
  explicit Trace(const program::Program& program, const KernelLimit& limit = nullptr);

  /// The times of one step, as the Engine gives them.
  void addStep(std::span<const runtime::TaskTime> times);
  /// Of the step that was added last.
  void addKernels(std::vector<runtime::KernelSpan> times);
  std::int32_t numSteps() const { return static_cast<std::int32_t>(steps.size()); }

  /// One entry per device; the devices of a replica are next to each other.
  std::vector<DeviceUse> usage() const;
  /// A line about the program and a table of usage().
  std::string summary() const;

  const TracedLane& laneOf(const runtime::TaskTime& time) const {
    return lanes[static_cast<std::size_t>(time.lane)];
  }
  const TracedTask& taskOf(const runtime::TaskTime& time) const {
    return laneOf(time).tasks[static_cast<std::size_t>(time.task)];
  }
  const TracedTask& taskOf(const runtime::KernelSpan& time) const {
    return lanes[static_cast<std::size_t>(time.lane)].tasks[static_cast<std::size_t>(time.task)];
  }
  const TracedSubject& subjectOf(const TracedTask& task) const {
    return subjects[static_cast<std::size_t>(task.subject)];
  }
  const TracedSubject& subjectOf(const runtime::TaskTime& time) const {
    return subjectOf(taskOf(time));
  }
  /// "forward 2 m3"
  std::string nameOf(const TracedTask& task) const;
  std::string nameOf(const runtime::TaskTime& time) const { return nameOf(taskOf(time)); }
  /// Number of devices of all replicas.
  std::size_t numDevices() const { return devices.size() * static_cast<std::size_t>(replicas); }
  /// Which of the devices of all replicas a task ran on.
  std::size_t deviceOf(const runtime::TaskTime& time) const {
    return static_cast<std::size_t>(time.replica) * devices.size() +
           static_cast<std::size_t>(laneOf(time).device);
  }
  /// "0", or "1/0" for device 0 of replica 1.
  std::string deviceName(std::size_t device) const;
  /// The slot of a ring that a task uses in a round; 0 for other buffers.
  std::int32_t slotOf(const TracedTask& task, std::int32_t buffer, std::int32_t round) const;
  /// Of a step that is not empty.
  static std::int64_t beginOf(const Step& step) { return step.front().start; }
  static std::int64_t endOf(const Step& step);

  std::string name;  ///< of the program
  bool training = false;
  std::int32_t microBatchesPerRound = 1;
  std::int32_t replicas = 1;
  std::vector<TracedDevice> devices;  ///< of one replica
  std::vector<TracedBuffer> buffers;
  std::vector<TracedSubject> subjects;
  std::vector<TracedLane> lanes;
  std::vector<Step> steps;
  /// By step: what tasks wrote, every value after those that it was made of; empty: not recorded.
  std::vector<std::vector<runtime::WrittenValue>> writes;
  /// By step: kernels inside the tasks, in the order of their begin; empty: not recorded.
  std::vector<std::vector<runtime::KernelSpan>> kernels;
  /// What has to be added to the times for nanoseconds since 1970; 0 for virtual times.
  std::int64_t toUnix = 0;
  /// The target whose virtual times these are, "ipu2"; empty: they were measured.
  std::string simulated;
  /// A name of the run with " (simulated on ipu2)" behind it, if it was.
  std::string labelled(const std::string& title) const;
};

/// In the Trace Event Format, for Chrome's and Perfetto's viewers: a process per device, a thread
/// per lane. Slices have the stage, micro-batch, round and step as arguments, and an arrow leads to
/// each transfer from the kernels that made its data. Several traces are put on one absolute time.
std::string perfettoJson(std::span<const Trace> traces);
/// One line per task that ran: program, step, round, device, lane, task, category, stage,
/// micro-batch, bytes, start and end in nanoseconds of one absolute time.
std::string traceCsv(std::span<const Trace> traces);

}  // namespace sluice::profile
