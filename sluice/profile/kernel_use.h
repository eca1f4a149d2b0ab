// Which kernels a run spent its time in, from the times of kernels inside tasks. Private to the
// module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

/// All runs of one kernel of a subject; times in nanoseconds.
struct KernelUse {
  std::string kernel;
  std::string task;  ///< name of the subject
  std::int64_t count = 0;
  std::int64_t total = 0;
  std::int64_t longest = 0;
  double flops = 0;  ///< of all runs
  double bytes = 0;  ///< read and written
  double limit = 0;  ///< what all runs would take at the highest rates of the device; 0: not known

  double gigaflopsPerSecond() const { return perNanosecond(flops); }
  double gigabytesPerSecond() const { return perNanosecond(bytes); }
  /// Of the highest rates, 1 for a kernel that could not be faster; data that caches still hold can
  /// come faster than from memory, so it may be more. 0: not known.
  double limitShare() const { return perNanosecond(limit); }

 private:
  double perNanosecond(double all) const {
    return total > 0 ? all / static_cast<double>(total) : 0;
  }
};

/// The longest total first; empty if the trace has no kernels.
std::vector<KernelUse> kernelUses(const Trace& trace);

}  // namespace sluice::profile
