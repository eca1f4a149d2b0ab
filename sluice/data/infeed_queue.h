// InfeedQueue: passes the elements of a dataset to a running model, one per micro-batch. The
// queue's own thread reads ahead; the model's run dequeues.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sluice/data/dataset.h"

#pragma GCC visibility push(default)

namespace sluice::data {

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

}  // namespace sluice::data

#pragma GCC visibility pop
