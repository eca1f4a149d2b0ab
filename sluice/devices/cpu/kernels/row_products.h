// Sums of products of rows, with vector code: what convolutions of single channels and products
// with few rows are made of.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::devices::cpu {

/// Where a tap of a window is, and the row that it is multiplied with.
struct RowTap {
  const float* left = nullptr;  ///< of the first pixel
  const float* right = nullptr;
};

/// Pixels of a line whose windows have the same taps; each has a row of `length` floats in `to`.
struct RowWindows {
  std::span<const RowTap> taps;
  std::int64_t leftStep = 0;  ///< floats from a pixel's window to the next one's
  float* to = nullptr;
  std::int64_t pixels = 0;
  std::int64_t length = 0;
};

/// to[p][i] = the sum over taps, in their order, of left[p * leftStep + i] * right[i]; zeros if
/// there is no tap.
void sumRowProducts(const RowWindows& windows);

/// [rows, k] times the transpose of [columns, k], both with adjacent k.
struct DotProducts {
  const float* left = nullptr;
  const float* right = nullptr;
  float* to = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k = 0;
  std::int64_t toStride = 0;  ///< from row to row
};

/// Every element sums in the lanes of a few vectors, then over these; it does not depend on its
/// neighbours.
void multiplyDots(const DotProducts& product);

}  // namespace sluice::devices::cpu
