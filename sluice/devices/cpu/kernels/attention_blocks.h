// The scores of one block of queries with one block of keys, as the attention kernels hold them:
// transposed, [keys, rows], so that what belongs to one query lies in one lane of the vectors.
#pragma once

#include <cstdint>

#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {

/// Queries of a block, and the elements from one key of a block to the next.
inline constexpr std::int64_t kAttentionRows = 64;
inline constexpr std::int64_t kAttentionKeys = 64;

enum class MaskKind : std::uint8_t { None, Keep, Add };

struct ScoreBlock {
  float* scores =
      nullptr;  ///< products of queries and keys; what is made of them takes their place
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  float scale = 1.0F;
  bool crossesDiagonal = false;
  std::int64_t diagonal = 0;  ///< then row i sees the keys up to i + diagonal
  MaskKind kind = MaskKind::None;
  const void* mask = nullptr;  ///< of the first row and key; bool or float
  std::int64_t maskRow = 0;    ///< elements from row to row
  std::int64_t maskKey = 0;

  bool isMasked(std::int64_t row, std::int64_t key) const {
    return (crossesDiagonal && key > row + diagonal) ||
           (kind == MaskKind::Keep &&
            !static_cast<const bool*>(mask)[row * maskRow + key * maskKey]);
  }
};

/// Scales and masks the scores and raises `top`, one value per row, to their maximum.
void finishScores(const ScoreBlock& block, float* top);
/// Replaces finished scores by exp(score - top) and sets `sum` to the sum of each row's.
void weighScores(const ScoreBlock& block, const float* top, float* sum);
/// Scales and masks the scores and replaces them by exp(score - logSum) * factor.
void recomputeWeights(const ScoreBlock& block, const float* logSum, const float* factor);
/// Replaces the gradients of weights in block.scores by weight * (gradient - mean) * scale.
void slopesOfScores(const ScoreBlock& block, const float* weights, const float* mean);

/// Rows of `width` elements, one after the other.
struct RowsOf {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;
};
/// Multiplies row i by factor[i].
void scaleRows(const RowsOf& y, const float* factor);
/// Divides row i by divisor[i].
void divideRows(const RowsOf& y, const float* divisor);
/// to[i] = sum of x[i, :] * y[i, :]
void dotRows(const float* x, const float* y, const MatrixExtents& extents, float* to);
/// Adds x to the elements of y.
void addElements(const float* x, float* y, std::int64_t count);

}  // namespace sluice::devices::cpu
