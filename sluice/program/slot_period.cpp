#include <algorithm>
#include <numeric>

#include "sluice/program/program.h"

namespace sluice::program {

std::int64_t slotPeriod(const Program& program, const Lane& lane) {
  std::int64_t period = 1;
  for (const Task& task : lane.tasks) {
    for (const Slot& slot : program.slotsOf(task)) {
      // A round moves on by its micro-batches, so a ring comes round after as many of them as it
      // takes to move by a multiple of its slots.
      const std::int64_t slots = program.buffer(slot.buffer).slots;
      const std::int64_t rounds =
          slots / std::gcd(slots, std::int64_t{program.microBatchesPerRound});
      // Both are below 2^31, so the product is exact.
      period = std::min(kLongestPeriod, std::lcm(period, rounds));
    }
  }
  return period;
}

}  // namespace sluice::program
