// The inner loops of pooling. A strip is a run of windows with the same taps whose results lie side
// by side: in plain storage a run of windows along the last axis, one lane each; in channels-last
// storage a run of windows with a lane per channel. Every lane is computed alike, so both storages
// give the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::devices::cpu {

/// A position of the window that lies inside the input.
struct PoolTap {
  std::int64_t offset;    ///< from the window's first position to the element, in elements
  std::int32_t position;  ///< inside the window, row-major
};

struct PoolStrip {
  std::span<const PoolTap> taps;
  std::int64_t lanes = 0;        ///< of one window
  std::int64_t windows = 1;      ///< their results follow each other
  std::int64_t step = 0;         ///< between the inputs of neighbouring windows, at least `lanes`
  std::int64_t start = 0;        ///< first position of the first lane; in padding it is outside
  std::int64_t inputStride = 1;  ///< between the inputs of neighbouring lanes
  bool separate = true;          ///< no two lanes read the same element: channels
};

/// Index is uint8_t or int32_t.
template <class Index>
void maxPoolStrip(const PoolStrip& strip, const float* in, float* out, Index* indices);

void avgPoolStrip(const PoolStrip& strip, const float* in, float divisor, float* out);

/// Adds dy to the elements that won; overlapping windows must come in ascending order. Where the
/// windows of all strips cover the input and do not overlap, `replace` takes dx as zeros.
template <class Index>
void maxPoolGradStrip(
    const PoolStrip& strip, const Index* indices, const float* dy, float* dx, bool replace);

/// Adds dy / divisor to every element of the windows.
void avgPoolGradStrip(const PoolStrip& strip, const float* dy, float divisor, float* dx);

}  // namespace sluice::devices::cpu
