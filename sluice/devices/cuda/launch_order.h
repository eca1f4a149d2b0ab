// Which kernels of a segment may run side by side: a captured launch is a graph of kernels, and a
// kernel follows those whose bytes it uses. Private to the device and its tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::devices::cuda {

struct ByteRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;

  bool meets(const ByteRange& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

/// What a kernel reads and what it writes.
struct Access {
  std::vector<ByteRange> reads;
  std::vector<ByteRange> writes;

  /// Whether the order of the two matters.
  bool conflicts(const Access& other) const;
};

/// For each kernel the earlier ones that it must follow. Left out are those that another one of
/// them follows, directly or not.
std::vector<std::vector<std::size_t>> launchOrder(std::span<const Access> kernels);

}  // namespace sluice::devices::cuda
