// Trace: records when every task of a Program ran, over several steps. It is made from the Program
// and the times that the Engine notes. It can be written as JSON for Chrome's and Perfetto's
// viewers (a process per device, a thread per lane), and as a table of how busy each device was and
// what it waited for. With replicas, the devices of the first replica come first, then those of the
// next.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"

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

/// What a trace says about a task; it is the same in every round and step.
struct TracedTask {
  std::string name;                    ///< "forward 2 m3"
  std::string_view category;           ///< the kind of the task or of its segment
  std::int32_t stage = -1;             ///< -1: none
  std::int32_t microBatch = -1;        ///< within the round; -1: once per round
  std::int64_t bytes = 0;              ///< bytes of a transfer; 0 for other tasks
  program::Wait producer{.lane = -1};  ///< for a transfer: the kernels on the other device
};

struct TracedLane {
  std::int32_t device = 0;
  program::LaneKind kind = program::LaneKind::Compute;
  std::string name;
  std::vector<TracedTask> tasks;
};

class Trace {
 public:
  /// Copies the names that it needs; the program may be destroyed afterwards.
  explicit Trace(const program::Program& program);

  /// The times of one step, as the Engine gives them.
  void addStep(std::span<const runtime::TaskTime> times);
  std::int32_t steps() const { return static_cast<std::int32_t>(steps_.size()); }

  /// One entry per device; the devices of a replica are next to each other.
  std::vector<DeviceUse> usage() const;
  /// A line about the program and a table of usage().
  std::string summary() const;
  /// The trace in the Trace Event Format. Slices have the stage, micro-batch, round and step as
  /// arguments, and an arrow leads to each transfer from the kernels that made its data.
  std::string json() const;

 private:
  using Step = std::vector<runtime::TaskTime>;  // by start

  static TracedTask describe(const program::Program& program, const program::Task& task);
  const TracedLane& laneOf(const runtime::TaskTime& time) const {
    return lanes_[static_cast<std::size_t>(time.lane)];
  }
  const TracedTask& taskOf(const runtime::TaskTime& time) const {
    return laneOf(time).tasks[static_cast<std::size_t>(time.task)];
  }
  /// Which of the devices of all replicas a task ran on.
  std::size_t deviceOf(const runtime::TaskTime& time) const {
    return static_cast<std::size_t>(time.replica) * devices_ +
           static_cast<std::size_t>(laneOf(time).device);
  }
  /// "0", or "1/0" for device 0 of replica 1.
  std::string deviceName(std::size_t device) const;
  void addUse(const Step& step, std::vector<DeviceUse>& uses) const;

  std::string program_;
  std::int32_t microBatchesPerRound_ = 1;
  std::size_t devices_ = 1;  // devices per replica
  std::size_t replicas_ = 1;
  std::vector<TracedLane> lanes_;
  std::vector<Step> steps_;
};

}  // namespace sluice::profile
