// How work is cut so that results do not depend on the number of threads: tiles and grains are
// functions of the shape alone (rule R3).
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::devices::cpu {

constexpr std::int64_t ceilDiv(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Items of `size` elements each that make a tile worth a thread.
constexpr std::int64_t itemsPerTile(std::int64_t size) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(size, 1));
}

/// Rows of `columns` elements summed by one tile: at most 64 grains.
constexpr std::int64_t rowsPerGrain(std::int64_t rows, std::int64_t columns) {
  const std::int64_t least = std::max<std::int64_t>(16, 32768 / std::max<std::int64_t>(columns, 1));
  return std::max(least, ceilDiv(rows, 64));
}

}  // namespace sluice::devices::cpu
