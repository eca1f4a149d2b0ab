// The inner loops of pooling. A strip is a run of windows with the same taps whose results are
// adjacent. In plain storage it is a run of windows along the last axis with one lane each; in
// channels-last storage it is a run of windows with one lane per channel. Every lane is computed in
// the same way, so both storages give the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::devices::cpu {

/// A position of the window that lies inside the input.
struct PoolTap {
  std::int64_t offset;    ///< from the window's first position to the element, in elements
  std::int32_t position;  ///< in the window, row-major
};

struct PoolStrip {
  std::span<const PoolTap> taps;
  std::int64_t lanes = 0;        ///< lanes of one window
  std::int64_t windows = 1;      ///< their results are adjacent
  std::int64_t step = 0;         ///< from the inputs of a window to the next; at least `lanes`
  std::int64_t start = 0;        ///< first position of the first lane; outside if in padding
  std::int64_t inputStride = 1;  ///< from the input of a lane to that of the next
  bool separate = true;          ///< no two lanes read the same element (channels)
};

/// Index is uint8_t or int32_t.
template <class Index>
void maxPoolStrip(const PoolStrip& strip, const float* in, float* out, Index* indices);

void avgPoolStrip(const PoolStrip& strip, const float* in, float divisor, float* out);

/// Adds dy to the elements that were the maxima; overlapping windows must come in ascending order.
/// If the windows of all strips cover the input without overlap, `replace` may treat dx as zeros.
template <class Index>
void maxPoolGradStrip(
    const PoolStrip& strip, const Index* indices, const float* dy, float* dx, bool replace);

/// Adds dy / divisor to every element of the windows.
void avgPoolGradStrip(const PoolStrip& strip, const float* dy, float divisor, float* dx);

}  // namespace sluice::devices::cpu
