#include "sluice/profile/common_clock.h"

#include <algorithm>
#include <optional>

namespace sluice::profile {

std::int64_t firstMoment(const Trace& trace) {
  std::optional<std::int64_t> first;
  for (const Trace::Step& step : trace.steps) {
    if (!step.empty()) {
      first = std::min(first.value_or(Trace::beginOf(step)), Trace::beginOf(step));
    }
  }
  return first.value_or(0);
}

std::vector<std::int64_t> shiftsOf(std::span<const Trace* const> traces) {
  std::optional<std::int64_t> origin;  // of all that have a time of day and steps
  for (const Trace* trace : traces) {
    const bool ran = std::ranges::any_of(trace->steps, [](const auto& s) { return !s.empty(); });
    if (ran && trace->simulated.empty()) {
      const std::int64_t begin = firstMoment(*trace) + trace->toUnix;
      origin = std::min(origin.value_or(begin), begin);
    }
  }
  std::vector<std::int64_t> shifts;
  shifts.reserve(traces.size());
  for (const Trace* trace : traces) {
    shifts.push_back(trace->simulated.empty() && origin ? trace->toUnix - *origin
                                                        : -firstMoment(*trace));
  }
  return shifts;
}

}  // namespace sluice::profile
