// RemoteLinks: a limited bandwidth between the devices and remote memory. Each device has one link
// in and one link out; transfers on one link follow each other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

namespace sluice::runtime {

class RemoteLinks {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Direction : std::uint8_t { In, Out };

  /// `bandwidth` is in bytes per second for each link; 0: not limited.
  explicit RemoteLinks(double bandwidth) : bandwidth_(bandwidth) {}

  /// Sleeps until a transfer that began at `begin` would be done, after all earlier transfers on
  /// its link, or until interrupt().
  void pass(std::size_t replica,
            std::int32_t device,
            Direction direction,
            std::size_t bytes,
            Clock::time_point begin);
  /// A step ends early: all sleeps end, and none begins until begin() is called for a new step.
  void interrupt();
  void begin();

 private:
  double bandwidth_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool interrupted_ = false;
  std::map<std::tuple<std::size_t, std::int32_t, Direction>, Clock::time_point> free_;
};

}  // namespace sluice::runtime
