#include "sluice/runtime/remote_link.h"

#include <algorithm>
#include <thread>

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
  Clock::time_point end;
  {
    const std::scoped_lock lock(mutex_);
    Clock::time_point& free = free_[{replica, device, direction}];
    free = std::max(free, begin) + std::chrono::duration_cast<Clock::duration>(time);
    end = free;
  }
  std::this_thread::sleep_until(end);
}

}  // namespace sluice::runtime
