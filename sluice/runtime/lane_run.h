// One lane of a loaded Program while a step runs: how far it has come and what its next task waits
// for. A task is issued to the lane's queue once every task that it waits for has been issued. On a
// device that runs on the host, the task is then done. On other kinds the lane has events, for
// which queues of the same kind wait, and stamps, which tell the host how far the queue is. Private
// to the runtime module.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/prepared_segment.h"

namespace sluice::runtime {

/// Which threads run a lane: the workers, the thread whose tasks may block in the host's code, the
/// threads that wait for remote memory or for messages, or whoever has a message ready that may
/// leave at once, and otherwise threads that wait until it may.
enum class LaneClass : std::uint8_t { Device, Host, Remote, Send };
inline constexpr std::size_t kLaneClasses = 4;

/// Whether the next task of a lane may be issued. Blocked: a task that it waits for has not been
/// issued. Pending: all have, but the host has to wait until one of them is done.
enum class Readiness : std::uint8_t { Blocked, Pending, Ready };

/// Which tasks of a step have their times kept.
enum class LaneTimes : std::uint8_t { None, Last, All };

/// For each lane of the Program, the replica that most recently delayed others. It is asked first,
/// so that a task that waits for all replicas does not ask all of them again and again.
class Laggards {
 public:
  explicit Laggards(std::size_t lanes) : replicas_(lanes) {}
  std::size_t at(std::size_t lane) const { return replicas_[lane].load(std::memory_order_relaxed); }
  void set(std::size_t lane, std::size_t replica) {
    replicas_[lane].store(replica, std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<std::size_t>> replicas_;
};

/// Data that the lanes of all replicas share, made once for a Program. Kernels refer to buffers by
/// their numbers on their own device, so that no lane needs a table of all buffers of the Program.
struct LanePlans {
  LanePlans(const program::Program& program, Replicas where);

  /// The kernels of a segment, with the numbers of buffers on its device.
  std::vector<device::KernelCall> callsOf(const program::Segment& segment) const;
  std::size_t entries() const;  ///< of all tables

  LaneClass classOf(const program::Lane& lane) const;

  const program::Program& program;
  Replicas where;
  std::vector<std::int32_t> numberOf;                     ///< by BufferId: its number on its device
  std::vector<std::vector<program::BufferId>> buffersOf;  ///< by device and number
  /// By lane, then by task and class: whether tasks in other lanes of that class wait for it.
  std::vector<std::vector<bool>> signals;
  std::int64_t roundSpan = 1;  ///< what a round adds to the priority of a task
  /// Number of rounds whose events are kept: as many as waits look back, plus the current one.
  std::int32_t eventRounds = 1;
};

/// Stamps in memory that the device can write by itself.
class StampArray {
 public:
  StampArray(device::Device& device, std::size_t count);
  device::Stamp& operator[](std::size_t i) const { return stamps_[i]; }

 private:
  std::unique_ptr<device::Memory> memory_;
  device::Stamp* stamps_;
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the counter has its own cache line
class LaneRun {
 public:
  /// `device` makes its queue and events.
  LaneRun(const LanePlans& plans,
          Laggards& laggards,
          std::size_t lane,
          std::size_t replica,
          device::Device& device);

  std::size_t replica() const { return replica_; }

  const program::Lane& plan() const { return plan_; }
  LaneClass laneClass() const { return class_; }
  device::Queue& queue() { return *queue_; }
  const device::Queue& queue() const { return *queue_; }
  device::Device& device() const { return device_; }
  bool isAsynchronous() const { return asynchronous_; }
  std::int64_t issued() const { return issued_.load(std::memory_order_acquire); }
  /// How many tasks are done.
  std::int64_t done() const {
    return asynchronous_ ? ended().number.load(std::memory_order_acquire) : issued();
  }
  std::int64_t total() const { return total_; }
  /// Whether all tasks have been issued.
  bool finished() const { return issued() >= total_; }
  bool isLast(std::int64_t count) const { return count + 1 == total_; }
  /// In the program.
  std::int32_t number() const { return static_cast<std::int32_t>(&plan_ - program_.lanes.data()); }
  std::int64_t perRound() const { return static_cast<std::int64_t>(plan_.tasks.size()); }

  /// Starts a step. A new `generation` means that the addresses have changed.
  void begin(std::int32_t rounds,
             std::span<const device::Address> addresses,
             std::uint64_t generation,
             LaneTimes times);

  /// Whether the task after the first `count` tasks may be issued. `lanes` holds the lanes of all
  /// replicas, one replica after the other. If Pending, `pending` is set to the event to wait for.
  Readiness readiness(std::int64_t count,
                      std::span<const std::unique_ptr<LaneRun>> lanes,
                      const device::Event** pending = nullptr) const;
  bool ready(std::int64_t count, std::span<const std::unique_ptr<LaneRun>> lanes) const {
    return readiness(count, lanes) == Readiness::Ready;
  }
  /// Whether all that the task after the first `count` tasks waits for has been issued.
  bool isUnblocked(std::int64_t count, std::span<const std::unique_ptr<LaneRun>> lanes) const;
  /// Makes the queue wait for what the task waits for, and stamps the begin of a timed task.
  void beginTask(std::int64_t count, std::span<const std::unique_ptr<LaneRun>> lanes);
  /// Stamps the end of the task, in the order of the queue.
  void endTask(std::int64_t count);
  /// Notes that another queue has been given all tasks of the step, so that the event of the last
  /// one stands for them.
  void endStep(device::Queue& queue);
  /// The event that an asynchronous lane recorded at the end of an issued task.
  const device::Event& event(std::int64_t count) const;
  /// Ready tasks are taken in ascending order of this: by round, then by planned start.
  std::int64_t priority(std::int64_t count) const;
  const program::Task& task(std::int64_t count) const {
    return plan_.tasks[static_cast<std::size_t>(count % perRound())];
  }
  std::int32_t round(std::int64_t count) const {
    return static_cast<std::int32_t>(count / perRound());
  }

  /// Claims the lane; only one thread at a time may run its next task.
  bool claim() { return !taken_.exchange(true, std::memory_order_acquire); }
  void release() { taken_.store(false, std::memory_order_release); }
  bool isTaken() const { return taken_.load(std::memory_order_relaxed); }
  void issue(std::int64_t count) { issued_.store(count, std::memory_order_release); }

  /// Whether tasks in other lanes of that class wait for this task.
  bool signals(std::int64_t count, LaneClass waiter) const {
    return signals_[static_cast<std::size_t>(count % perRound()) * kLaneClasses +
                    static_cast<std::size_t>(waiter)];
  }

  /// For lanes of kernels only: the addresses of the device's buffers, by number on the device,
  /// with the slots of the task that was selected last.
  std::span<const device::Address> addresses() const { return buffers_; }
  void selectSlots(const program::Task& task,
                   std::int32_t round,
                   std::span<const device::Address> addresses);

  /// The launches of the selected task. They are captured when the task first uses its slots, which
  /// come again after the lane's period. Empty if the device captures nothing or if slots hardly
  /// repeat.
  const PreparedSegment::Captures& capturesOf(std::int64_t count, PreparedSegment& segment);
  std::size_t numCaptures() const;

  /// The last task that used a slot of a staged stream; negative if there is none.
  std::int64_t& lastUse(std::size_t stream, std::size_t slot);

  /// Adds the times of the lane's tasks, of a very long step those of the last ones. Call it after
  /// the step.
  void addTimes(std::vector<TaskTime>& times) const;

  /// Notes that the task ended with an error.
  void noteFailure(std::int64_t count) { failed_.store(count, std::memory_order_relaxed); }
  /// Adds the last tasks that the lane began, and the one that failed. Call it after a step that
  /// failed and kept times.
  void addEvents(std::vector<TaskEvent>& events) const;

  /// For example "compute of device 0: finished run forward 0 of micro-batch 1, next is ...".
  std::string report(std::span<const std::unique_ptr<LaneRun>> lanes) const;
  /// Whether the queue is in a task: the first that has not ended was issued or is being issued,
  /// and all that it waits for has ended. No stamp tells it, as each is work for the queue.
  bool isInTask(std::span<const std::unique_ptr<LaneRun>> lanes) const;
  /// The first task that has not ended, for example "compute of device 0: run forward 0 of
  /// micro-batch 1, round 0".
  std::string firstTaskLeft() const;

 private:
  std::string taskText(std::int64_t count) const;
  TaskEvent eventOf(std::int64_t count) const;
  /// Calls f(lane, count of its task) for every task that the task waits for.
  template <class F>
  void forEachWait(std::int64_t count,
                   std::span<const std::unique_ptr<LaneRun>> lanes,
                   const F& f) const;
  bool canQueueWaitFor(const LaneRun& other) const {
    return asynchronous_ && other.asynchronous_ && device_.info().kind == other.device_.info().kind;
  }
  /// The number of tasks whose events are kept.
  std::int64_t ring() const { return perRound() * plans_.eventRounds; }
  std::size_t timeIndex(std::int64_t count) const {
    return 2 * static_cast<std::size_t>(count % timesKept_);
  }
  std::size_t eventIndex(std::int64_t count) const {
    return static_cast<std::size_t>(count % ring());
  }

  device::Stamp& ended() const { return stamp_[0]; }

  // Polled by other threads; shares its cache line only with data that a step does not change.
  alignas(64) std::atomic<std::int64_t> issued_{0};
  const LanePlans& plans_;
  Laggards& laggards_;
  const program::Program& program_;
  const program::Lane& plan_;
  std::size_t replica_;
  LaneClass class_;
  std::atomic<bool> taken_{false};
  device::Device& device_;
  bool asynchronous_;
  StampArray stamp_;                 // the tasks ended, before the queue that writes it
  std::optional<StampArray> times_;  // a ring of begins and ends of tasks, if timed
  std::unique_ptr<device::Queue> queue_;
  std::vector<std::unique_ptr<device::Event>> events_;  // if asynchronous, by eventIndex
  std::vector<device::Address> buffers_;  // by number on the device, ring slots set per task
  std::vector<std::optional<PreparedSegment::Captures>> captures_;  // by task and round of a period
  std::uint64_t generation_ = 0;  // generation of the captured addresses
  const std::vector<bool>& signals_;
  std::vector<std::vector<std::int64_t>> lastUse_;  // by staged stream and slot
  std::int64_t timesKept_ = 0;                      // tasks whose times are kept, the last ones
  bool timed_ = false;
  std::atomic<std::int64_t> failed_{-1};  // the task that ended with an error; negative: none
  std::int64_t total_ = 0;
};

}  // namespace sluice::runtime
