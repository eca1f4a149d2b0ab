// Queues between the host and a loop on the devices, and how quickly they are fed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sluice/data/dataset.h"

#pragma GCC visibility push(default)

namespace sluice::data {

// InfeedQueue: passes the elements of a dataset to a running model, one per micro-batch. The
// queue's own thread reads ahead; the model's run dequeues.

class Prefetcher;

class InfeedQueue {
 public:
  /// Every element of the dataset is one micro-batch; batch() makes such elements from samples.
  /// `names` are the names of an element's tensors, if they have any. Starts to read immediately.
  /// Throws InvalidArgument for a depth below 1.
  explicit InfeedQueue(IterablePtr dataset,
                       std::int64_t prefetchDepth = 3,
                       std::vector<std::string> names = {});
  ~InfeedQueue();
  InfeedQueue(const InfeedQueue&) = delete;
  InfeedQueue& operator=(const InfeedQueue&) = delete;

  /// The types of an element's tensors. Waits for the first element. Throws InvalidArgument if
  /// there is none, and the dataset's error.
  const Types& types();
  /// Waits until types() would not wait. Returns false if this takes longer than `atMost` (0: no
  /// limit). Throws Cancelled as dequeue() does.
  bool awaitTypes(std::chrono::milliseconds atMost);
  const std::vector<std::string>& names() const { return names_; }

  /// Waits for the next element and returns it. Throws InvalidArgument at the end of the dataset,
  /// for an element whose types differ from those of the first, and once closed; also throws the
  /// dataset's errors, with the number of the element.
  std::vector<HostTensor> dequeue();
  /// The number of elements dequeued so far.
  std::int64_t dequeued() const;

  /// Ends the queue: dequeue throws, in threads that wait already and in later calls. Any thread
  /// may call it.
  void close();
  /// Called when the run that dequeues ends early. Until resume(), dequeue throws Cancelled, in
  /// threads that wait already and in later calls. No element is lost.
  void interrupt();
  void resume();

 private:
  std::vector<HostTensor> take();

  IterablePtr dataset_;
  std::vector<std::string> names_;
  std::int64_t produced_ = 0;                     // used by the prefetcher's thread only
  mutable std::mutex mutex_;                      // guards the members below except the prefetcher
  std::optional<std::vector<HostTensor>> first_;  // taken early for its types
  Types types_;
  std::int64_t dequeued_ = 0;
  std::unique_ptr<Prefetcher> prefetcher_;
};

// OutfeedQueue: passes the results of a running model to the host. The model puts in the tensors of
// every iteration and replica. Any thread dequeues complete iterations, while the model runs or
// afterwards. Nothing is lost: a queue with a capacity makes the model wait when it is full.

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
  /// 0: no limit.
  std::int64_t capacity() const { return capacity_; }

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

// Measures how fast data can be read without a model, from a dataset or through an infeed queue.

struct BenchmarkOptions {
  bool printStats = true;  ///< logs a line per epoch
  bool doMemcpy = true;    ///< copies every element, as handing it to a device would
};

/// Reads `elements` elements of the dataset per epoch, each time from its start. The result is a
/// JSON object:
///   {"epochs": [{"elements_processed", "total_bytes_processed", "time_elapsed" (s),
///                "elements_per_second", "bandwidth" (GB/s)}, ...]}
/// Throws InvalidArgument for counts below 1 and for a dataset with fewer elements.
std::string datasetBenchmark(IterableDataset& dataset,
                             std::int64_t epochs,
                             std::int64_t elements,
                             const BenchmarkOptions& options = {});
/// The same for the elements of a queue. An epoch continues where the previous one ended.
std::string infeedBenchmark(InfeedQueue& queue,
                            std::int64_t epochs,
                            std::int64_t elements,
                            const BenchmarkOptions& options = {});

}  // namespace sluice::data

#pragma GCC visibility pop
