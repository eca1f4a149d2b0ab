// What a benchmark of memory-bound code is measured against: the best of several runs, and how fast
// as many threads copy memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "sluice/base/workers.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::bench {

/// The best of several runs, in seconds.
inline double bestOf(const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

struct Timing {
  double seconds;
  double bytes;
};

/// Tiles of memcpy by as many threads; both sides count.
inline Timing timeCopy(const TensorType& type, int threads) {
  Workers workers(threads);
  const HostTensor from = HostTensor::full(type, 1.0);
  HostTensor to(type);
  constexpr std::size_t kTile = 65536;
  const std::size_t tiles = type.bytes() / kTile;
  return {bestOf([&] {
            workers.parallelFor(static_cast<std::int64_t>(tiles), [&](std::int64_t i) {
              const std::size_t at = static_cast<std::size_t>(i) * kTile;
              std::memcpy(to.bytes() + at, from.bytes() + at, kTile);
            });
          }),
          2.0 * static_cast<double>(tiles * kTile)};
}

}  // namespace sluice::bench
