// SharedSums: what the first replica of a process has received from others, for all replicas of the
// process. Private to the runtime module.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "sluice/runtime/inbox.h"

namespace sluice::runtime {

class SharedSums {
 public:
  using Result = std::shared_ptr<const MessageBytes>;

  explicit SharedSums(std::size_t replicas) : replicas_(replicas) {}

  /// A step begins; what a failed one has left is forgotten.
  void begin();
  /// The result of a task, by lane and number of tasks before it.
  void publish(std::size_t lane, std::int64_t count, MessageBytes result);
  /// Waits for it; each replica takes it once. Throws Cancelled once the step was stopped.
  Result take(std::size_t lane, std::int64_t count, const std::atomic<bool>& stopped);

 private:
  struct Entry {
    Result result;
    std::size_t left = 0;  // replicas that will take it
  };
  std::size_t replicas_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<std::pair<std::size_t, std::int64_t>, Entry> entries_;
};

}  // namespace sluice::runtime
