// OutfeedQueue: results of a running model on their way to the host. The model puts the tensors of
// every iteration and replica; any thread dequeues whole iterations, while the model runs or after.
// Nothing is lost: a queue with a capacity makes the model wait.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/data/dataset.h"

namespace sluice::data {

enum class OutfeedMode : std::uint8_t {
  All,  ///< every iteration
  Last  ///< the newest one only
};

class OutfeedQueue {
 public:
  /// Capacity: iterations that the queue holds before the model waits for somebody to dequeue them;
  /// 0: any number. Throws InvalidArgument if it is negative.
  explicit OutfeedQueue(OutfeedMode mode = OutfeedMode::All, std::int64_t capacity = 0);

  OutfeedMode mode() const { return mode_; }

  /// What an iteration puts: tensors of these types of each replica, with names or without. Once
  /// per queue; the same again changes nothing. Throws InvalidArgument for another definition.
  void define(const Types& types,
              std::int64_t replicas = 1,
              const std::vector<std::string>& names = {});
  /// A run begins: what an earlier one left unfinished is dropped.
  void begin();
  /// The run that began ends early: put throws Cancelled, now or later, until the next begin.
  void interrupt();
  /// The next value of a tensor of a replica. Waits while the queue is full. Throws InvalidArgument
  /// once closed.
  void put(std::size_t tensor, std::int64_t replica, const void* data);

  /// Of mode All: all whole iterations that have arrived, possibly none, as [n, shape] or, of
  /// several replicas, [n, replicas, shape]. Of mode Last: the newest as [shape] or [replicas,
  /// shape]; it stays. Does not wait. Throws InvalidArgument before define, and in mode Last before
  /// the first iteration.
  std::vector<HostTensor> dequeue();
  /// The same by name. Throws InvalidArgument if the tensors have none.
  std::map<std::string, HostTensor> dequeueNamed();
  /// Until so many iterations can be dequeued (mode Last: since the last dequeue). False: the queue
  /// was closed before.
  bool await(std::int64_t iterations = 1);
  /// How many whole iterations can be dequeued now.
  std::int64_t size() const;

  /// Nothing more comes: who awaits goes on, and what is in the queue can still be dequeued. A
  /// model that puts more gets an error. Any thread may call it.
  void close();

 private:
  /// One iteration: the tensors of all replicas.
  struct Slot {
    std::vector<HostTensor> tensors;  // [replicas, shape]
    std::size_t missing = 0;          // tensors and replicas that have not been put
  };
  void requireDefined() const;
  std::int64_t complete() const;
  Slot& slotFor(std::int64_t iteration);
  bool full(std::int64_t iteration) const;
  TensorType resultType(std::size_t tensor, std::int64_t iterations) const;

  OutfeedMode mode_;
  std::int64_t capacity_;
  mutable std::mutex mutex_;  // guards all below
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
  std::int64_t arrived_ = 0;          // whole iterations since the last dequeue, of mode Last
};

}  // namespace sluice::data
