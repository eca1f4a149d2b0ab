// Which kernels a run spent its time in, from the times of kernels inside tasks. Private to the
// module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

/// All runs of one kernel of a subject, in nanoseconds.
struct KernelUse {
  std::string kernel;
  std::string task;  ///< name of the subject
  std::int64_t count = 0;
  std::int64_t total = 0;
  std::int64_t longest = 0;
};

/// The longest total first; empty if the trace has no kernels.
std::vector<KernelUse> kernelUses(const Trace& trace);

}  // namespace sluice::profile
