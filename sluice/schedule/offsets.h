// Places buffers with known lifetimes in one arena: integers in, integers out. Two buffers that
// live at the same time never overlap. The arena is as small as the heuristic finds; the result
// also gives a lower bound that no placement can beat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::schedule {

/// A buffer that lives in [begin, end) of a discrete time that repeats in rounds. If begin > end,
/// it lives from begin to the end of the round and, in the next round, until end.
struct Lifetime {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t bytes = 0;

  bool wraps() const { return begin > end; }
  bool covers(std::int64_t time) const {
    return wraps() ? time >= begin || time < end : begin <= time && time < end;
  }
  bool meets(const Lifetime& other) const {
    if (wraps() && other.wraps()) {
      return true;
    }
    if (wraps() || other.wraps()) {
      return begin < other.end || other.begin < end;
    }
    return begin < other.end && other.begin < end;
  }
};

struct OffsetPlan {
  std::vector<std::size_t> offsets;
  std::size_t peak = 0;        ///< size of the arena in bytes
  std::size_t lowerBound = 0;  ///< most bytes alive at one time
  std::size_t looks = 0;       ///< examined pieces of taken memory: a measure of work
};

/// Places all buffers at offsets that are multiples of `alignment`.
OffsetPlan planOffsets(std::span<const Lifetime> buffers, std::size_t alignment);

}  // namespace sluice::schedule
