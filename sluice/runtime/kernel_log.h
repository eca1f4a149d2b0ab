// KernelLog: when each kernel of a step ran, inside the tasks that the times of a step are about. A
// step whose program is watched for kernels (Watch::kernels) fills it.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice::runtime {

struct KernelSpan {
  std::int32_t lane = 0;  ///< number in the program
  std::int32_t task = 0;
  std::int32_t round = 0;
  std::int32_t replica = 0;
  std::int32_t kernel = 0;  ///< of the task's segment
  std::int64_t start = 0;   ///< on the clock of TaskTime
  std::int64_t end = 0;

  bool operator==(const KernelSpan&) const = default;
};

/// Any thread may add.
class KernelLog {
 public:
  void add(const KernelSpan& time) {
    const std::scoped_lock lock(mutex_);
    times_.push_back(time);
  }
  /// Returns all times and forgets them.
  std::vector<KernelSpan> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(times_, {});
  }

 private:
  std::mutex mutex_;  // guards times_
  std::vector<KernelSpan> times_;
};

}  // namespace sluice::runtime
