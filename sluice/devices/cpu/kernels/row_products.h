// Sums of products of rows, with vector code: what convolutions of single channels and products
// with few rows are made of.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::devices::cpu {

/// A row of `to` that is the sum of products of two rows each, in their order.
struct RowTerm {
  const float* left = nullptr;
  const float* right = nullptr;
};

/// to[i] = the sum over terms of left[i] * right[i]; zeros if there is no term.
void sumRowProducts(std::span<const RowTerm> terms, float* to, std::int64_t length);

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
