// Queue: the work of one lane of a device, in order. Every call returns once the device knows the
// work: on a kind that runs on the host the work is then done, on other kinds it may be pending.
// Events order the queues of one kind among each other, and the host can wait for them, too. If
// accepted work fails, the rest of the queue is skipped: `failure` returns the exception and
// `finish` throws it. Public functions check their arguments and call private virtual functions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include "sluice/device/memory.h"
#include "sluice/ir/op_def.h"
#include "sluice/tensor/shape.h"

namespace sluice::device {

class PeerPort;

/// Returns nanoseconds since some fixed moment.
using Clock = std::int64_t (*)();
std::int64_t steadyNanoseconds();

/// A queue writes a stamp in its order, and the host can read it at any time: the number of a task,
/// and the time when it was reached.
struct Stamp {
  std::atomic<std::int64_t> number{0};
  std::atomic<std::int64_t> time{0};
};

/// A place in a queue's work. If it is recorded again, it stands for the later place.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  bool isRecorded() const { return recorded_.load(std::memory_order_relaxed); }
  /// Whether all work before it has ended, be it by a failure.
  bool isDone() const;
  /// Waits until isDone, for at most the given time; returns false if time ran out.
  bool await(std::chrono::milliseconds atMost) const;

 private:
  friend class Queue;
  virtual bool doIsDone() const = 0;
  virtual bool doAwait(std::chrono::milliseconds atMost) const = 0;

  std::atomic<bool> recorded_{false};
};

/// A prepared segment: its kernels are made and its libraries initialised. It runs on the queues of
/// the device that made it.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  virtual ~Executable() = default;
};

/// A launch, or the work of several queues, with its addresses and ready to run any number of
/// times. It must be destroyed before its executables and the memories.
class Capture {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  virtual ~Capture() = default;

  /// For recorded work of several queues: from the next replay on, copies that were recorded with
  /// the address `recorded` use `now` in its place, which is in memory of the same kind. The memory
  /// of `recorded` need not be there any more.
  void redirect(Address recorded, Address now) { doRedirect(recorded, now); }

 private:
  virtual void doRedirect(Address recorded, Address now);
};

class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;

  /// Sets what later kernels know about the step. The numbers are written to memory in queue order
  /// and read when a kernel runs, so that a captured launch can run with new numbers.
  void setRun(const ir::RunInfo& info) { doSetRun(info); }
  /// `buffers` holds the addresses for the indices in the segment's KernelCalls; it is read only
  /// during the call.
  void launch(Executable& executable, std::span<const Address> buffers) {
    doLaunch(executable, buffers);
  }
  /// Repeats a captured launch; the capture must come from the queue's device.
  void replay(Capture& capture) { doReplay(capture); }
  /// Both addresses must be in memory of this kind or of the host.
  void copy(Address to, Address from, std::size_t bytes);
  void fill(Address to, std::byte value, std::size_t bytes);
  /// Adds up elements of a float type in the order of `from` and rounds each sum to the type. `to`
  /// must not be one of `from`.
  void sum(Address to, std::span<const Address> from, DType type, std::int64_t elements);
  void record(Event& event);
  /// Later work starts after the event, which a queue of the same kind must have recorded.
  void wait(const Event& event);
  void stamp(Stamp& stamp, std::int64_t number) { doStamp(stamp, number, clock_); }
  /// Returns when all work is done, or throws its exception; after that the queue is usable again.
  void finish() { doFinish(); }
  /// Whether no work is left.
  bool isIdle() const { return doIsIdle(); }
  /// The exception of work since the last finish(), or null.
  std::exception_ptr failure() const { return doFailure(); }
  /// How the device copies to devices of other processes; null: only the host can.
  PeerPort* peerPort() { return doPeerPort(); }

  /// Once the flag is set, work may end with Cancelled before and between kernels. Null: never.
  /// Call only while the queue is idle.
  void stopWhen(const std::atomic<bool>* flag) { stop_ = flag; }
  /// Sets the clock of stamps. Call only while the queue is idle.
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
  virtual PeerPort* doPeerPort() { return nullptr; }

  const std::atomic<bool>* stop_ = nullptr;
  Clock clock_ = steadyNanoseconds;
};

/// Copies from (or to) the host and waits until it is done. The queue must be idle.
void copyIn(Queue& queue, Address to, const void* from, std::size_t bytes);
void copyOut(Queue& queue, void* to, Address from, std::size_t bytes);

}  // namespace sluice::device
