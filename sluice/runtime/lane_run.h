// One lane of a loaded Program while a step runs: how far it is and what its next task waits for.
// Private to the runtime module.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"

namespace sluice::runtime {

/// Who runs a lane: workers, the thread whose tasks may block in the host's code, or the threads
/// that wait for remote memory.
enum class LaneClass : std::uint8_t { Device, Host, Remote };
inline constexpr std::size_t kLaneClasses = 3;

/// What the lanes of all replicas have in common, made once for a Program. Kernels know buffers by
/// their numbers on their own device, so that no lane has a table of all buffers of the Program.
struct LanePlans {
  explicit LanePlans(const program::Program& program);

  /// The kernels of a segment, with buffers by their numbers on its device.
  std::vector<device::KernelCall> callsOf(const program::Segment& segment) const;
  std::size_t entries() const;  ///< of all tables

  const program::Program& program;
  std::vector<std::int32_t> numberOf;                     ///< by BufferId: its number on its device
  std::vector<std::vector<program::BufferId>> buffersOf;  ///< by device and number
  /// By lane, then by task and class: whether tasks of other lanes of that class wait for it.
  std::vector<std::vector<bool>> signals;
  std::int64_t roundSpan = 1;  ///< what a round adds to the priority of a task
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the counter has its own cache line
class LaneRun {
 public:
  LaneRun(const LanePlans& plans,
          std::size_t lane,
          std::size_t replica,
          std::unique_ptr<device::Queue> queue);

  std::size_t replica() const { return replica_; }

  const program::Lane& plan() const { return plan_; }
  LaneClass laneClass() const { return class_; }
  device::Queue& queue() { return *queue_; }
  std::int64_t done() const { return done_.load(std::memory_order_acquire); }
  bool finished() const { return done() >= total_; }
  bool isLast(std::int64_t count) const { return count + 1 == total_; }
  std::int64_t perRound() const { return static_cast<std::int64_t>(plan_.tasks.size()); }

  void begin(std::int32_t rounds, std::span<std::byte* const> addresses, bool timed);

  /// Whether the task behind `count` finished ones may run. `lanes` are those of all replicas, one
  /// replica behind the other.
  bool ready(std::int64_t count, std::span<const std::unique_ptr<LaneRun>> lanes) const;
  /// Ready tasks are taken in this order: round by round, by planned start.
  std::int64_t priority(std::int64_t count) const;
  const program::Task& task(std::int64_t count) const {
    return plan_.tasks[static_cast<std::size_t>(count % perRound())];
  }
  std::int32_t round(std::int64_t count) const {
    return static_cast<std::int32_t>(count / perRound());
  }

  /// One thread at a time may run the lane's next task.
  bool claim() { return !taken_.exchange(true, std::memory_order_acquire); }
  void release() { taken_.store(false, std::memory_order_release); }
  bool isTaken() const { return taken_.load(std::memory_order_relaxed); }
  void complete(std::int64_t count) { done_.store(count, std::memory_order_release); }

  /// Whether tasks of other lanes of that class wait for this task.
  bool signals(std::int64_t count, LaneClass waiter) const {
    return signals_[static_cast<std::size_t>(count % perRound()) * kLaneClasses +
                    static_cast<std::size_t>(waiter)];
  }

  /// For kernels: where the buffers of the device are, by their numbers there; slots are those of
  /// the task that was selected last. Only the lanes of kernels have it.
  std::span<std::byte* const> addresses() const { return buffers_; }
  void selectSlots(const program::Task& task,
                   std::int32_t round,
                   std::span<std::byte* const> addresses);

  void addTime(const TaskTime& time) { times_.push_back(time); }
  std::vector<TaskTime>& times() { return times_; }

  /// "compute of device 0: finished run forward 0 of micro-batch 1, next is ..."
  std::string report() const;

 private:
  std::string taskText(std::int64_t count) const;

  // Polled by other threads; shares its cache line only with what a step does not change.
  alignas(64) std::atomic<std::int64_t> done_{0};
  const LanePlans& plans_;
  const program::Program& program_;
  const program::Lane& plan_;
  std::size_t replica_;
  LaneClass class_;
  std::atomic<bool> taken_{false};
  std::unique_ptr<device::Queue> queue_;
  std::vector<std::byte*> buffers_;  // by number on the device, ring slots set per task
  const std::vector<bool>& signals_;
  std::vector<TaskTime> times_;
  std::int64_t total_ = 0;
};

}  // namespace sluice::runtime
