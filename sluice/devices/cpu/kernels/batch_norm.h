// What the vector code of batch_norm.cpp gets. With channels innermost an input is a matrix of rows
// by channels; of few channels, several rows are taken as one wide row, so that vectors are full.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sluice/devices/cpu/kernels/grains.h"

namespace sluice::devices::cpu {

struct ChannelRows {
  std::int64_t channels = 0;
  std::int64_t wide = 1;      ///< rows in a wide row
  std::int64_t rows = 0;      ///< wide ones
  std::int64_t perGrain = 1;  ///< wide rows whose sums are one partial; they fit a core's cache

  std::int64_t width() const { return channels * wide; }
  std::int64_t grains() const { return ceilDiv(rows, perGrain); }
  std::int64_t grainRows(std::int64_t grain) const {
    return std::min(perGrain, rows - grain * perGrain);
  }
  std::int64_t terms() const { return rows * wide; }  ///< elements of a channel
};

/// What is known per column of a wide row.
struct NormColumns {
  const float* mean;
  const float* scale;
  const float* shift;
  const float* slope;
};

struct NormGradInputs {
  const float* x;
  const float* dy;
  const float* mean;  ///< per column of a wide row
};

}  // namespace sluice::devices::cpu
