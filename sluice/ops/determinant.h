// Shared by det and its gradient: determinants by elimination with row exchanges.
#pragma once

#include <cmath>
#include <span>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {

/// Throws InvalidArgument unless input 0 has a float type and its last two axes are equal.
inline void requireSquare(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  const Shape& shape = op.inputs[0].shape;
  if (shape.rank() < 2 || shape[shape.rank() - 1] != shape[shape.rank() - 2]) {
    raise<InvalidArgument>(
        "{}: the last two axes must be a square matrix, got {}", op.def.name, shape.str());
  }
}

/// The determinant of an n by n matrix, which is overwritten.
inline double determinant(std::span<double> a, std::size_t n) {
  double result = 1.0;
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t row = k + 1; row < n; ++row) {
      pivot = std::fabs(a[row * n + k]) > std::fabs(a[pivot * n + k]) ? row : pivot;
    }
    if (a[pivot * n + k] == 0.0) {
      return 0.0;
    }
    if (pivot != k) {
      for (std::size_t column = k; column < n; ++column) {
        std::swap(a[pivot * n + column], a[k * n + column]);
      }
      result = -result;
    }
    result *= a[k * n + k];
    for (std::size_t row = k + 1; row < n; ++row) {
      const double factor = a[row * n + k] / a[k * n + k];
      for (std::size_t column = k; column < n; ++column) {
        a[row * n + column] -= factor * a[k * n + column];
      }
    }
  }
  return result;
}

}  // namespace sluice::ops
