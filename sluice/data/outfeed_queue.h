// OutfeedQueue: passes the results of a running model to the host. The model puts in the tensors of
// every iteration and replica. Any thread dequeues complete iterations, while the model runs or
// afterwards. Nothing is lost: a queue with a capacity makes the model wait when it is full.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/data/dataset.h"

#pragma GCC visibility push(default)

namespace sluice::data {

enum class OutfeedMode : std::uint8_t {
  All,  ///< every iteration
  Last  ///< only the newest one
};

class OutfeedQueue {
 public:
  /// The capacity is the number of iterations that the queue holds; when it is full, the model
  /// waits until some are dequeued. 0: no limit. Throws InvalidArgument for a negative capacity.
  explicit OutfeedQueue(OutfeedMode mode = OutfeedMode::All, std::int64_t capacity = 0);

  OutfeedMode mode() const { return mode_; }

  /// Declares what an iteration puts in for each replica: tensors of these types, with or without
  /// names. Throws InvalidArgument for a second definition that differs from the first.
  void define(const Types& types,
              std::int64_t replicas = 1,
              const std::vector<std::string>& names = {});
  /// Called when a run begins. Drops iterations that an earlier run left incomplete.
  void begin();
  /// Called when a run ends early. Until the next begin(), put throws Cancelled, in threads that
  /// wait already and in later calls.
  void interrupt();
  /// Puts in the next value of a replica's tensor. Waits while the queue is full. Throws
  /// InvalidArgument once the queue is closed.
  void put(std::size_t tensor, std::int64_t replica, const void* data);

  /// Does not wait. In mode All, returns all complete iterations, possibly none, as [n, shape] or,
  /// with several replicas, [n, replicas, shape]. In mode Last, returns the newest iteration as
  /// [shape] or [replicas, shape] and keeps it. Throws InvalidArgument before define, and in mode
  /// Last before the first iteration.
  std::vector<HostTensor> dequeue();
  /// The same by name. Throws InvalidArgument if the tensors have none.
  std::map<std::string, HostTensor> dequeueNamed();
  /// Waits until this many iterations can be dequeued; in mode Last, until this many have arrived
  /// since the last dequeue. Returns false if the queue is closed first.
  bool await(std::int64_t iterations = 1);
  /// The same, but waits no longer than this.
  bool awaitFor(std::chrono::milliseconds atMost, std::int64_t iterations = 1);
  /// The number of complete iterations that can be dequeued now.
  std::int64_t size() const;
  /// Whether close() was called.
  bool isClosed() const;

  /// Declares that no more results will come. Threads in await return, and what is in the queue can
  /// still be dequeued. A later put throws. Any thread may call it.
  void close();

 private:
  /// One iteration: the tensors of all replicas.
  struct Slot {
    std::vector<HostTensor> tensors;  // [replicas, shape]
    std::size_t missing = 0;          // values of tensors and replicas that have not arrived
  };
  void requireDefined() const;
  bool hasArrived(std::int64_t iterations) const;
  std::int64_t complete() const;
  Slot& slotFor(std::int64_t iteration);
  bool full(std::int64_t iteration) const;
  TensorType resultType(std::size_t tensor, std::int64_t iterations) const;

  OutfeedMode mode_;
  std::int64_t capacity_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool defined_ = false;
  bool closed_ = false;
  bool interrupted_ = false;
  Types types_;
  std::int64_t replicas_ = 1;
  std::vector<std::string> names_;
  std::deque<Slot> slots_;
  std::int64_t first_ = 0;            // iteration of the first slot
  std::vector<std::int64_t> counts_;  // values put, by tensor and replica
  std::int64_t arrived_ = 0;          // complete iterations since the last dequeue; for mode Last
};

}  // namespace sluice::data

#pragma GCC visibility pop
