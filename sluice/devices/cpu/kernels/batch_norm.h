// The data for the vector code of batch_norm.cpp. If channels are innermost, an input is a matrix
// of rows by channels. If there are few channels, several rows form one wide row, so that vectors
// are full.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sluice/devices/cpu/kernels/grains.h"

namespace sluice::devices::cpu {

struct ChannelRows {
  std::int64_t channels = 0;
  std::int64_t wide = 1;      ///< rows in a wide row
  std::int64_t rows = 0;      ///< number of wide rows
  std::int64_t perGrain = 1;  ///< wide rows whose sums are one partial; they fit a core's cache

  std::int64_t width() const { return channels * wide; }
  std::int64_t grains() const { return ceilDiv(rows, perGrain); }
  std::int64_t grainRows(std::int64_t grain) const {
    return std::min(perGrain, rows - grain * perGrain);
  }
  std::int64_t terms() const { return rows * wide; }  ///< elements of a channel
};

/// Values per column of a wide row.
template <class T>
struct NormColumns {
  const T* mean;
  const T* scale;
  const T* shift;
  const T* slope;
};

template <class T>
struct NormGradInputs {
  const T* x;
  const T* dy;
  const T* mean;  ///< per column of a wide row
};

/// The vector code, compiled for this processor.
template <class T>
struct BatchNormLoops {
  /// Per column of a grain: the mean, and the sum of squared distances from it.
  void (*grainMoments)(
      const ChannelRows& plan, const T* x, std::int64_t grain, T* mean, T* squares);
  /// y = (x - mean) scale + shift
  void (*normalizeRow)(const NormColumns<T>& by, const T* x, T* y, std::size_t width);
  /// Per column of a grain: the sum of dy, and of dy (x - mean).
  void (*grainGradSums)(
      const ChannelRows& plan, const NormGradInputs<T>& in, std::int64_t grain, T* sum, T* dot);
  /// dx = scale (dy - shift - (x - mean) slope)
  void (*gradientRow)(const NormColumns<T>& by, const T* x, const T* dy, T* dx, std::size_t width);
};

}  // namespace sluice::devices::cpu
