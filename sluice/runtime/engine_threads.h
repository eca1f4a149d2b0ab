// EngineThreads: the threads of an Engine and the step that they work on. A thread serves the lanes
// of one class and takes the ready task with the earliest planned start. The thread that called
// run() waits for the end (engine_wait.cpp). Private to the runtime.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/base/function_ref.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/lane_run.h"
#include "sluice/runtime/remote_link.h"
#include "sluice/runtime/step_job.h"

namespace sluice::runtime {

/// How long the host waits for a queue before it looks around again.
inline constexpr std::chrono::milliseconds kGlance{2};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one per engine
struct EngineThreads {
  /// What sleeping threads of one class wait for: raised when a task of theirs may be ready.
  struct alignas(64) Signal {
    std::atomic<std::int32_t> epoch{0};
    std::atomic<std::int32_t> sleepers{0};

    void raise() {
      epoch.fetch_add(1);
      if (sleepers.load() > 0) {
        epoch.notify_all();
      }
    }
  };

  /// Where the threads of one class look for their next task. With many replicas most lanes have a
  /// task of the same rank, so that the first one found will do.
  struct alignas(64) Search {
    std::atomic<std::size_t> first{0};   ///< the lane to begin with
    std::atomic<std::int64_t> floor{0};  ///< no lane of the class has a task of a lower rank
    std::atomic<std::int64_t> looks{0};  ///< lanes looked at since the step began

    void begin() {
      first.store(0, std::memory_order_relaxed);
      floor.store(std::numeric_limits<std::int64_t>::min(), std::memory_order_relaxed);
      looks.store(0, std::memory_order_relaxed);
    }
  };

  EngineThreads(const std::vector<ModelState*>& all, const EngineOptions& given);
  EngineThreads(const EngineThreads&) = delete;
  EngineThreads& operator=(const EngineThreads&) = delete;
  ~EngineThreads() { join(); }

  void join();

  /// Between steps only.
  void growWorkers();
  void addDevices(const ModelState& state);
  void addThread(LaneClass laneClass);

  /// As many as may wait for remote memory or other owners at a time; between steps only. Whoever
  /// waits for another owner must keep nobody from sending, so their lanes have a thread each.
  void growRemote(std::span<const std::unique_ptr<LaneRun>> lanes);

  void threadLoop(LaneClass laneClass, std::int32_t seen);

  /// A part of the step in the thread of the caller, unless the step has failed; it fails with what
  /// this throws.
  void attempt(FunctionRef<void()> part);

  /// Ends the step. False: it has ended already.
  bool fail(std::exception_ptr error);

  void wakeAll();

  bool over() const { return failed.load() || lanesLeft.load() == 0; }

  /// Runs ready tasks of a class until the step is over.
  void runTasks(LaneClass laneClass, TaskRoom& room);

  struct Next {
    LaneRun* lane = nullptr;                 ///< claimed for this thread, or:
    const device::Event* pending = nullptr;  ///< what a task waits for that has been issued
  };

  /// The lane whose next task is ready and planned earliest.
  Next claimReady(LaneClass laneClass);
  Next lookForReady(LaneClass laneClass);  ///< without claiming it

  /// Sends the messages that are ready, as long as they leave at once; false: one has to wait.
  bool sendAtOnce(TaskRoom& room);

  static std::string placeOf(const LaneRun& lane, std::int64_t count);

  /// Adds the tasks that queues have begun and not ended: an asynchronous device reports an error
  /// to whoever calls it next, so that the place of the call says little.
  void addTasksInWork(DeviceError& error) const;

  void runTaskAt(LaneRun& lane, std::int64_t count, TaskRoom& room);

  /// Ends the step if something went wrong in a queue. The task is one that has not ended.
  void failWithQueues();
  /// Ends the step with the error that is being handled, which the queue of the lane reported.
  void failIn(LaneRun& lane, Error& error);
  /// The lane of the same device, or of a captured step any lane, that is in a task, one of kernels
  /// if there is; else the lane itself.
  LaneRun& suspectOf(LaneRun& lane) const;

  void runNext(LaneRun& lane, TaskRoom& room);

  std::string reportOf(bool runningOnly) const;

  void giveUp();

  /// Tasks that are done, for whoever watches that something moves.
  std::int64_t progress() const;

  bool queuesAreDone() const;

  /// Whether neither a thread nor a queue has anything left of the step; with the mutex.
  bool isIdle() const;

  /// Nobody needs what the step was given any more; with the mutex, once it is idle.
  void forgetStep();

  /// Waits until it is, at most so long; with the mutex. Queues tell nobody when they are done.
  bool awaitIdle(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds atMost);

  /// Waits for the threads to leave the step and for the queues; gives it up when nothing moves for
  /// too long. Once the step has failed it waits for a bounded time.
  void awaitEnd();

  /// Lets the caller look around while it waits; it works for the step like the other threads.
  void lookAround() const;

  /// Waits a moment for the queues, if there is nothing else to wait for, and looks at them.
  void glance(bool wait);

  /// Rethrows the step's error, and says who is left behind.
  void finish();

  void requireIdle();

  EngineOptions options;
  const std::vector<ModelState*>& states;
  std::vector<device::Device*> devices;  // of all states; grows between steps only
  std::vector<std::thread> threads;
  int workers = 0;                 // of the threads
  StepJob job;                     // written before `step` is raised, read by the threads after
  std::optional<StepArgs> args;    // of the job; kept while a thread is in the step
  std::vector<Turn::Mark> marks;   // for whom the step's threads work
  std::atomic<bool> wrote{false};  // the step has begun to write state
  // Lines of their own: idle threads look at the first ones while others write the last.
  alignas(64) std::atomic<std::int32_t> step{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::atomic<std::size_t> running{0};  // threads that are in the step; written with `mutex`
  alignas(64) std::atomic<std::int32_t> lanesLeft{0};
  std::array<Signal, kLaneClasses> signals;   // by LaneClass
  std::array<Search, kLaneClasses> searches;  // likewise
  std::size_t remoteThreads = 0;
  std::size_t sendThreads = 0;
  RemoteLinks links;
  alignas(64) std::atomic<std::int64_t> tasksDone{0};
  // The end of a step, and its first error.
  std::mutex failing;        // one at a time adds to the error of a queue
  mutable std::mutex mutex;  // guards all below
  std::condition_variable ended;
  std::vector<LaneRun*> queued;  // whose queues may have work of the step
  bool active = false;           // run() has not returned
  std::exception_ptr failure;
};

}  // namespace sluice::runtime
