#include "sluice/profile/kernel_use.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice::profile {

std::vector<KernelUse> kernelUses(const Trace& trace) {
  std::map<std::pair<std::int32_t, std::int32_t>, KernelUse> uses;  // by subject and kernel
  for (const std::vector<runtime::KernelSpan>& step : trace.kernels) {
    for (const runtime::KernelSpan& time : step) {
      const std::int32_t subject = trace.taskOf(time).subject;
      const TracedSubject& info = trace.subjects[static_cast<std::size_t>(subject)];
      KernelUse& use = uses[{subject, time.kernel}];
      const TracedKernel& kernel = info.kernels[static_cast<std::size_t>(time.kernel)];
      if (use.count == 0) {
        use.kernel = kernel.name;
        use.task = info.name;
      }
      ++use.count;
      use.flops += static_cast<double>(kernel.flops);
      use.bytes += static_cast<double>(kernel.bytes);
      use.limit += static_cast<double>(kernel.limit) / 1e3;
      use.total += time.end - time.start;
      use.longest = std::max(use.longest, time.end - time.start);
    }
  }
  std::vector<KernelUse> all;
  all.reserve(uses.size());
  for (auto& [key, use] : uses) {
    all.push_back(std::move(use));
  }
  std::ranges::stable_sort(all, std::greater<>(), &KernelUse::total);
  return all;
}

}  // namespace sluice::profile
