// The order in which an epoch visits the samples: a permutation that depends only on the number of
// samples, the seed and the epoch.
#pragma once

#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::data {

enum class Shuffle : std::uint8_t { No, Yes };

/// The indices 0, 1, ..., or a permutation of them if they are shuffled.
std::vector<std::int64_t> sampleOrder(std::int64_t samples,
                                      Shuffle shuffle,
                                      std::uint64_t seed,
                                      std::int64_t epoch);

}  // namespace sluice::data

#pragma GCC visibility pop
