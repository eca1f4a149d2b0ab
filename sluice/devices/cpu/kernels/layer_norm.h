// What the vector code of layer_norm.cpp gets: the extents, and one row of a gradient.
#pragma once

#include <cstdint>

namespace sluice::devices::cpu {

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double epsilon = 0;
};

/// `mean` is 0 and `dbeta` null for rms_norm.
struct NormGradRow {
  const float* x;
  const float* gamma;
  const float* dy;
  float mean;
  float rstd;
  float* dx;
  float* dgamma;
  float* dbeta;
};

}  // namespace sluice::devices::cpu
