// Copies between two strided views of any element type. Axes that both sides walk in the same way
// are merged, so that the innermost loop is a long contiguous run if possible. For the kernels that
// only move elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice::devices::cpu {

/// Strides in elements; they may be negative, and 0 in `from`.
struct CopyAxis {
  std::int64_t extent;
  std::int64_t from;
  std::int64_t to;
};

class StridedCopy {
 public:
  StridedCopy(const std::vector<CopyAxis>& axes, std::size_t elementBytes);

  /// Tiles write disjoint parts of the target, so any thread may run any tile.
  std::int64_t tiles() const { return tiles_; }
  /// `from` and `to` are the addresses of element (0, ..., 0).
  void runTile(std::int64_t tile, const std::byte* from, std::byte* to) const;

 private:
  struct Place {
    std::int64_t from = 0;
    std::int64_t to = 0;
  };
  Place placeOf(std::int64_t line) const;
  void copyLines(const std::byte* from,
                 std::byte* to,
                 const CopyAxis& line,
                 const CopyAxis& next) const;

  std::vector<CopyAxis> outer_;
  CopyAxis line_{1, 1, 1};
  std::size_t bytes_;
  std::int64_t lines_ = 1;
  std::int64_t pieces_ = 1;  ///< pieces of a line
  std::int64_t perTile_ = 1;
  std::int64_t tiles_ = 0;
};

/// memcpy without a call for short runs; most rows of tensors are short.
inline void copyRun(const std::byte* from, std::byte* to, std::size_t bytes) {
  constexpr std::size_t kBlock = 32;
  if (bytes >= 16 * kBlock) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::size_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock) {
    std::memcpy(to + at, from + at, kBlock);
  }
  for (; at + sizeof(std::uint32_t) <= bytes; at += sizeof(std::uint32_t)) {
    std::memcpy(to + at, from + at, sizeof(std::uint32_t));
  }
  for (; at < bytes; ++at) {
    to[at] = from[at];
  }
}

}  // namespace sluice::devices::cpu
