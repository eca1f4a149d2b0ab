// Queue: the work of one lane of a device, in order. Every call returns once the work is known to
// the device; on a kind that runs on the host that is when it is done, on others it may be earlier.
// Queues of one kind are ordered among each other by events, which the host can wait for, too. What
// goes wrong in work that was accepted ends the rest of the queue: `failure` has it, `finish`
// throws it. Public functions check, the private virtuals do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include "sluice/device/memory.h"
#include "sluice/ir/op_def.h"
#include "sluice/tensor/dtype.h"

namespace sluice::device {

/// Nanoseconds since some moment.
using Clock = std::int64_t (*)();
std::int64_t steadyNanoseconds();

/// What a queue writes in its order, for the host to read at any time: the number of a task, and
/// when that was.
struct Stamp {
  std::atomic<std::int64_t> number{0};
  std::atomic<std::int64_t> time{0};
};

/// A place in a queue's work. It may be recorded again and then stands for the later place.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  bool isRecorded() const { return recorded_.load(std::memory_order_relaxed); }
  /// Whether all work before it is over; also after a failure.
  bool isDone() const;
  /// Waits for that, at most so long; false: it is not.
  bool await(std::chrono::milliseconds atMost) const;

 private:
  friend class Queue;
  virtual bool doIsDone() const = 0;
  virtual bool doAwait(std::chrono::milliseconds atMost) const = 0;

  std::atomic<bool> recorded_{false};
};

/// A prepared segment: kernels made, libraries asked. Runs on the queues of the device that made
/// it.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  virtual ~Executable() = default;
};

/// A launch with its addresses, ready to run any number of times; it must end before its
/// executable and the memories.
class Capture {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  virtual ~Capture() = default;
};

class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;

  /// What kernels that follow are told about the step. It is written to memory in the order of the
  /// queue and read there when a kernel runs, so that a captured launch can run with other numbers.
  void setRun(const ir::RunInfo& info) { doSetRun(info); }
  /// `buffers` are addresses by the indices of the segment's KernelCalls; read during the call
  /// only.
  void launch(Executable& executable, std::span<const Address> buffers) {
    doLaunch(executable, buffers);
  }
  /// The same launch again; of a capture of the queue's device.
  void replay(Capture& capture) { doReplay(capture); }
  /// Both ends must be in memory of this kind, or in memory of the host.
  void copy(Address to, Address from, std::size_t bytes);
  void fill(Address to, std::byte value, std::size_t bytes);
  /// Adds up elements of a float type in the order of `from`, each sum rounded to the type; `to`
  /// may be none of them.
  void sum(Address to, std::span<const Address> from, DType type, std::int64_t elements);
  void record(Event& event);
  /// What follows begins after the event, which a queue of the same kind has recorded.
  void wait(const Event& event);
  void stamp(Stamp& stamp, std::int64_t number) { doStamp(stamp, number, clock_); }
  /// Returns when everything is done, or throws what went wrong; the queue is as new then.
  void finish() { doFinish(); }
  /// Whether nothing is left to do.
  bool isIdle() const { return doIsIdle(); }
  /// What went wrong since the last finish(), so far.
  std::exception_ptr failure() const { return doFailure(); }

  /// Once the flag is set, work may end before and between kernels with Cancelled. Null: it never
  /// does. Only while the queue is idle.
  void stopWhen(const std::atomic<bool>* flag) { stop_ = flag; }
  /// The clock of stamps; only while the queue is idle.
  void useClock(Clock clock) { clock_ = clock; }

 protected:
  bool isStopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

 private:
  virtual void doSetRun(const ir::RunInfo& info) = 0;
  virtual void doLaunch(Executable& executable, std::span<const Address> buffers) = 0;
  virtual void doReplay(Capture& capture);
  virtual void doCopy(Address to, Address from, std::size_t bytes) = 0;
  virtual void doFill(Address to, std::byte value, std::size_t bytes) = 0;
  virtual void doSum(Address to,
                     std::span<const Address> from,
                     DType type,
                     std::int64_t elements) = 0;
  virtual void doRecord(Event& event) = 0;
  virtual void doWait(const Event& event) = 0;
  virtual void doStamp(Stamp& stamp, std::int64_t number, Clock clock) = 0;
  virtual void doFinish() = 0;
  virtual bool doIsIdle() const { return true; }
  virtual std::exception_ptr doFailure() const { return nullptr; }

  const std::atomic<bool>* stop_ = nullptr;
  Clock clock_ = steadyNanoseconds;
};

/// Copies from and to the host and waits for it; `queue` was idle.
void copyIn(Queue& queue, Address to, const void* from, std::size_t bytes);
void copyOut(Queue& queue, void* to, Address from, std::size_t bytes);

}  // namespace sluice::device
