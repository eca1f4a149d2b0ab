// How much of its memory each device uses over the time of a step: state, and the buffers whose
// values are still needed, as the plan places them and at the times at which tasks ran.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

struct MemoryPoint {
  std::int64_t time = 0;
  std::int64_t bytes = 0;  ///< in use from this time on
  bool operator==(const MemoryPoint&) const = default;
};

struct HeldTensor {
  std::string name;
  std::int64_t bytes = 0;
  bool state = false;
  bool operator==(const HeldTensor&) const = default;
};

struct MemoryUse {
  std::int64_t stateBytes = 0;  ///< variables and what the kind of device takes for itself
  std::int64_t planned = 0;     ///< all that the plan reserves
  std::int64_t peak = 0;        ///< the most that was in use at once
  std::int64_t peakTime = 0;
  std::vector<MemoryPoint> points;  ///< by time, each with other bytes than the one before
  std::vector<HeldTensor> atPeak;   ///< the largest first
};

/// One entry per device of all replicas. The step must not be empty.
std::vector<MemoryUse> memoryUse(const Trace& trace, const Trace::Step& step);

/// At most about `most` points; each of the remaining ones has the largest value of its time.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points, std::size_t most);

}  // namespace sluice::profile
