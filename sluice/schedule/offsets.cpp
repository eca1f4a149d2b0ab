// Best fit by decreasing size: the largest buffers are placed first, each into the smallest gap
// between the already placed buffers whose lifetimes meet its own.
//
//   bytes ^   +-----+                A placed first, then C; B fits under C's
//         |   |  A  |  +--+          neighbour because B and C never live
//         |   |     |  |C |          together.
//         +---+-----+--+--+--> time
#include "sluice/schedule/offsets.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace sluice::schedule {
namespace {

std::size_t roundUp(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t mostAlive(std::span<const Lifetime> buffers, std::size_t alignment) {
  std::map<std::int64_t, std::int64_t> changes;
  std::int64_t alive = 0;
  for (const Lifetime& b : buffers) {
    const auto bytes = static_cast<std::int64_t>(roundUp(b.bytes, alignment));
    changes[b.begin] += bytes;
    changes[b.end] -= bytes;
    alive += b.wraps() ? bytes : 0;
  }
  std::int64_t most = alive;
  for (const auto& [time, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return static_cast<std::size_t>(most);
}

/// The start of the smallest gap of at least `bytes` between `taken` (sorted by offset), or the
/// first free byte above all of them.
std::size_t bestGap(std::span<const std::pair<std::size_t, std::size_t>> taken, std::size_t bytes) {
  std::size_t best = 0;
  std::size_t bestSize = 0;
  bool found = false;
  std::size_t top = 0;
  for (const auto& [begin, end] : taken) {
    if (begin > top && begin - top >= bytes && (!found || begin - top < bestSize)) {
      found = true;
      best = top;
      bestSize = begin - top;
    }
    top = std::max(top, end);
  }
  return found ? best : top;
}

}  // namespace

OffsetPlan planOffsets(std::span<const Lifetime> buffers, std::size_t alignment) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const Lifetime& x = buffers[a];
    const Lifetime& y = buffers[b];
    return x.bytes != y.bytes ? x.bytes > y.bytes : x.end - x.begin > y.end - y.begin;
  });
  OffsetPlan plan;
  plan.offsets.resize(buffers.size());
  plan.lowerBound = mostAlive(buffers, alignment);
  std::vector<std::size_t> placed;
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (const std::size_t i : order) {
    const Lifetime& buffer = buffers[i];
    const std::size_t bytes = roundUp(buffer.bytes, alignment);
    taken.clear();
    for (const std::size_t other : placed) {
      if (buffers[other].meets(buffer)) {
        taken.emplace_back(plan.offsets[other],
                           plan.offsets[other] + roundUp(buffers[other].bytes, alignment));
      }
    }
    std::ranges::sort(taken);
    plan.offsets[i] = bestGap(taken, bytes);
    plan.peak = std::max(plan.peak, plan.offsets[i] + bytes);
    if (bytes > 0 && buffer.begin != buffer.end) {
      placed.push_back(i);
    }
  }
  return plan;
}

}  // namespace sluice::schedule
