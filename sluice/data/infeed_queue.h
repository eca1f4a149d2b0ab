// InfeedQueue: elements of a dataset on their way to a running model, one per micro-batch. A thread
// of its own reads ahead; whoever runs the model dequeues.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sluice/data/dataset.h"
#include "sluice/data/prefetcher.h"

namespace sluice::data {

class InfeedQueue {
 public:
  /// Every element of the dataset is what one micro-batch gets, see batch(). `names` are for
  /// elements with named tensors. Starts to read at once. Throws InvalidArgument for a depth below
  /// 1.
  explicit InfeedQueue(IterablePtr dataset,
                       std::int64_t prefetchDepth = 3,
                       std::vector<std::string> names = {});

  /// Of an element; waits for the first. Throws InvalidArgument if there is none, or the dataset's
  /// error.
  const Types& types();
  /// Until types() would not wait; false: not within this time (0: any). Throws Cancelled as
  /// dequeue() does.
  bool awaitTypes(std::chrono::milliseconds atMost);
  const std::vector<std::string>& names() const { return names_; }

  /// The next element. Waits. Throws InvalidArgument at the end of the dataset, for an element of
  /// other types than the first, and once closed; the dataset's errors with the element's number.
  std::vector<HostTensor> dequeue();
  /// How many were dequeued.
  std::int64_t dequeued() const;

  /// Ends the queue: whoever waits in it, or will, gets an error. Any thread may call it.
  void close() { prefetcher_.close(); }
  /// The run that dequeues ends early: dequeue throws Cancelled, now or later, until resume(). No
  /// element is lost.
  void interrupt() { prefetcher_.interrupt(); }
  void resume() { prefetcher_.resume(); }

 private:
  std::vector<HostTensor> take();

  IterablePtr dataset_;
  std::vector<std::string> names_;
  std::int64_t produced_ = 0;                     // by the thread of the prefetcher
  mutable std::mutex mutex_;                      // guards what follows but for the prefetcher
  std::optional<std::vector<HostTensor>> first_;  // was taken for its types
  Types types_;
  std::int64_t dequeued_ = 0;
  Prefetcher prefetcher_;
};

}  // namespace sluice::data
