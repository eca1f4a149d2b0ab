// The data for the vector code of layer_norm.cpp: the extents, and one row of a gradient.
#pragma once

#include <cstdint>

#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double epsilon = 0;
};

/// `mean` is 0 and `dbeta` null for rms_norm.
template <class T>
struct NormGradRow {
  const T* x;
  const T* gamma;
  const T* dy;
  T mean;
  T rstd;
  T* dx;
  T* dgamma;
  T* dbeta;
};

/// The vector code, compiled for this processor.
template <class T>
struct NormLoops {
  void (*layerNormRow)(const NormShape&, const KernelRun&, std::int64_t row);
  void (*rmsNormRow)(const NormShape&, const KernelRun&, std::int64_t row);
  void (*normGradRow)(const NormGradRow<T>&, std::int64_t columns);
  /// to[c] = sum of `count` rows of `columns` partial sums.
  void (*addPartials)(const T* partials, std::int64_t count, std::int64_t columns, T* to);
};

}  // namespace sluice::devices::cpu
