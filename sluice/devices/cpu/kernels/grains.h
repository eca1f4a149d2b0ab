// How work is divided so that results do not depend on the number of threads: tiles and grains
// depend only on the shape (rule R3).
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::devices::cpu {

constexpr std::int64_t ceilDiv(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// How many items of `size` elements make a tile that is worth handing to a thread.
constexpr std::int64_t itemsPerTile(std::int64_t size) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(size, 1));
}

/// About so many tiles: more than 16 in multiples of 16, so that 4, 8 or 16 threads, which take
/// them in turns, end together.
constexpr std::int64_t evenTiles(std::int64_t tiles) {
  constexpr std::int64_t kTeam = 16;
  return tiles > kTeam ? (tiles + kTeam / 2) / kTeam * kTeam : tiles;
}

/// How many rows of `columns` elements one tile sums; there are at most 64 grains.
constexpr std::int64_t rowsPerGrain(std::int64_t rows, std::int64_t columns) {
  const std::int64_t least = std::max<std::int64_t>(16, 32768 / std::max<std::int64_t>(columns, 1));
  return std::max(least, ceilDiv(rows, 64));
}

}  // namespace sluice::devices::cpu
