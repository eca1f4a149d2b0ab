#include "sluice/runtime/shared_sums.h"

#include <chrono>

#include "sluice/base/error.h"

namespace sluice::runtime {

void SharedSums::begin() {
  const std::scoped_lock lock(mutex_);
  entries_.clear();
}

void SharedSums::publish(std::size_t lane, std::int64_t count, MessageBytes result) {
  const std::scoped_lock lock(mutex_);
  entries_[{lane, count}] = {std::make_shared<const MessageBytes>(std::move(result)), replicas_};
  changed_.notify_all();
}

SharedSums::Result SharedSums::take(std::size_t lane,
                                    std::int64_t count,
                                    const std::atomic<bool>& stopped) {
  const std::pair key(lane, count);
  std::unique_lock lock(mutex_);
  while (!entries_.contains(key)) {
    if (stopped.load()) {
      raise<Cancelled>("the step was given up meanwhile");
    }
    changed_.wait_for(lock, std::chrono::milliseconds(10));
  }
  const auto found = entries_.find(key);
  Result result = found->second.result;
  if (--found->second.left == 0) {
    entries_.erase(found);
  }
  return result;
}

}  // namespace sluice::runtime
