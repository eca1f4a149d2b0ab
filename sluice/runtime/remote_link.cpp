#include "sluice/runtime/remote_link.h"

#include <algorithm>

namespace sluice::runtime {

void RemoteLinks::pass(std::size_t replica,
                       std::int32_t device,
                       Direction direction,
                       std::size_t bytes,
                       Clock::time_point begin) {
  if (bandwidth_ <= 0) {
    return;
  }
  const std::chrono::duration<double> time(static_cast<double>(bytes) / bandwidth_);
  std::unique_lock lock(mutex_);
  Clock::time_point& free = free_[{replica, device, direction}];
  free = std::max(free, begin) + std::chrono::duration_cast<Clock::duration>(time);
  const Clock::time_point end = free;
  changed_.wait_until(lock, end, [&] { return interrupted_; });
}

void RemoteLinks::interrupt() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = true;
  free_.clear();
  changed_.notify_all();
}

void RemoteLinks::begin() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = false;
}

}  // namespace sluice::runtime
