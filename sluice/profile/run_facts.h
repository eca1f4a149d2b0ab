// What all reports of a run say. Private to the module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/profile/explain.h"
#include "sluice/profile/kernel_use.h"
#include "sluice/profile/latency.h"
#include "sluice/profile/memory_use.h"
#include "sluice/profile/prediction.h"
#include "sluice/profile/report.h"

namespace sluice::profile {

/// Of one device over all steps, in bytes and nanoseconds.
struct RemoteUse {
  std::int64_t fetched = 0;
  std::int64_t flushed = 0;
  std::int64_t copying = 0;  ///< time in which its fetches and flushes ran, side by side or not
  std::int64_t waited = 0;   ///< time in which the device was idle because of them

  /// Time of copies that nobody waited for.
  std::int64_t hidden() const { return std::max<std::int64_t>(copying - waited, 0); }
};

struct RunFacts {
  const TracedRun* run = nullptr;
  const Trace* trace = nullptr;
  Explanation why;
  Latencies latencies;                         ///< of the last step
  std::vector<std::vector<MemoryUse>> memory;  ///< by step and device
  std::vector<MemoryUse> peaks;                ///< by device: the step with the highest peak
  std::vector<RemoteUse> remote;               ///< by device; empty if there is no remote memory
  std::optional<Prediction> prediction;
  std::vector<KernelUse> kernels;  ///< empty if kernels were not recorded

  /// Of the run; says if it was simulated.
  std::string title() const { return trace->labelled(run->title); }
  std::int64_t perStep(std::int64_t total) const { return total / trace->numSteps(); }
  /// Of all devices.
  std::int64_t idle() const;
  std::int64_t idle(Cause cause) const;
  double busyShare() const;
  /// Causes of any idle time, the largest first.
  std::vector<Cause> causes() const;
};

/// Throws InvalidArgument for a run without steps.
std::vector<RunFacts> factsOf(std::span<const TracedRun> runs);

/// A sentence about the largest cause of idle time, and what to do; empty if there is none.
std::string advice(const RunFacts& facts);

std::string milliseconds(std::int64_t nanoseconds);          ///< "1.234 ms", or "1.234 us"
std::string percent(std::int64_t part, std::int64_t whole);  ///< "12.3 %"

}  // namespace sluice::profile
