#include "sluice/devices/cpu/kernels/attention_blocks.h"

#include <limits>

#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/attention_blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"
#include "sluice/devices/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

/// The mask of one key for all rows of the block; a bool is 1 where it keeps.
const float* maskOfKey(const ScoreBlock& block, std::int64_t key, float* to) {
  const std::int64_t first = key * block.maskKey;
  if (block.kind == MaskKind::Add) {
    const auto* from = static_cast<const float*>(block.mask) + first;
    for (std::int64_t i = 0; i < block.rows; ++i) {
      to[i] = from[i * block.maskRow];
    }
  } else if (block.kind == MaskKind::Keep) {
    const auto* from = static_cast<const bool*>(block.mask) + first;
    for (std::int64_t i = 0; i < block.rows; ++i) {
      to[i] = from[i * block.maskRow] ? 1.0F : 0.0F;
    }
  }
  return to;
}

/// scores = f(loader, first lane, scaled and masked score) for every key and row.
template <MaskKind kKind, bool kDiagonal, class F>
HWY_INLINE void mapScoresOf(const ScoreBlock& block, F f) {
  const FloatTag d;
  const FloatVec scale = hn::Set(d, block.scale);
  const FloatVec lowest = hn::Set(d, kLowest);
  HWY_ALIGN float buffer[kAttentionRows];
  for (std::int64_t key = 0; key < block.keys; ++key) {
    const float* row = block.scores + key * kAttentionRows;
    const float* mask = maskOfKey(block, key, buffer);
    const FloatVec firstRow = hn::Set(d, static_cast<float>(key - block.diagonal));
    mapRow(static_cast<std::size_t>(block.rows),
           block.scores + key * kAttentionRows,
           [&](auto load, std::size_t i) HWY_ATTR {
             FloatVec score = hn::Mul(load(row + i), scale);
             if constexpr (kKind == MaskKind::Add) {
               score = hn::Add(score, load(mask + i));
             } else if constexpr (kKind == MaskKind::Keep) {
               score = hn::IfThenElse(hn::Gt(load(mask + i), hn::Zero(d)), score, lowest);
             }
             if constexpr (kDiagonal) {
               const FloatVec rows = hn::Iota(d, static_cast<float>(i));
               score = hn::IfThenElse(hn::Ge(rows, firstRow), score, lowest);
             }
             return f(load, i, score);
           });
  }
}

template <MaskKind kKind, class F>
HWY_INLINE void mapScoresOf(const ScoreBlock& block, F f) {
  if (block.crossesDiagonal) {
    mapScoresOf<kKind, true>(block, f);
  } else {
    mapScoresOf<kKind, false>(block, f);
  }
}

template <class F>
HWY_INLINE void mapScores(const ScoreBlock& block, F f) {
  if (block.kind == MaskKind::None) {
    mapScoresOf<MaskKind::None>(block, f);
  } else if (block.kind == MaskKind::Add) {
    mapScoresOf<MaskKind::Add>(block, f);
  } else {
    mapScoresOf<MaskKind::Keep>(block, f);
  }
}

}  // namespace

void finish(const ScoreBlock& block, float* top) {
  const FloatTag d;
  HWY_ALIGN float padded[kAttentionRows + kMaxFloatLanes];
  const auto rows = static_cast<std::size_t>(block.rows);
  fillRow(kAttentionRows + kMaxFloatLanes, padded, kLowest);
  std::memcpy(padded, top, rows * sizeof(float));
  float* most = padded;
  mapScores(block, [=](auto, std::size_t i, FloatVec score) HWY_ATTR {
    hn::StoreU(hn::Max(hn::LoadU(d, most + i), score), d, most + i);
    return score;
  });
  std::memcpy(top, padded, rows * sizeof(float));
}

void weigh(const ScoreBlock& block, const float* top, float* sum) {
  const FloatTag d;
  const auto rows = static_cast<std::size_t>(block.rows);
  fillRow(rows, sum, 0.0F);
  for (std::int64_t key = 0; key < block.keys; ++key) {
    float* row = block.scores + key * kAttentionRows;
    mapRow(rows, row, [&](auto load, std::size_t i) HWY_ATTR {
      return Exp(d, hn::Sub(load(row + i), load(top + i)));
    });
    mapRow(rows, sum, [&](auto load, std::size_t i) HWY_ATTR {
      return hn::Add(load(sum + i), load(row + i));
    });
  }
}

void recompute(const ScoreBlock& block, const float* logSum, const float* factor) {
  const FloatTag d;
  mapScores(block, [=](auto load, std::size_t i, FloatVec score) HWY_ATTR {
    return hn::Mul(Exp(d, hn::Sub(score, load(logSum + i))), load(factor + i));
  });
}

void slopes(const ScoreBlock& block, const float* weights, const float* mean) {
  const FloatVec scale = hn::Set(FloatTag(), block.scale);
  for (std::int64_t key = 0; key < block.keys; ++key) {
    float* row = block.scores + key * kAttentionRows;
    const float* weight = weights + key * kAttentionRows;
    mapRow(static_cast<std::size_t>(block.rows), row, [&](auto load, std::size_t i) HWY_ATTR {
      const FloatVec slope = hn::Sub(load(row + i), load(mean + i));
      return hn::Mul(hn::Mul(load(weight + i), slope), scale);
    });
  }
}

void scaleAll(const RowsOf& y, const float* factor) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    float* row = y.data + r * y.width;
    const FloatVec by = hn::Set(FloatTag(), factor[r]);
    mapRow(static_cast<std::size_t>(y.width), row, [&](auto load, std::size_t i) HWY_ATTR {
      return hn::Mul(load(row + i), by);
    });
  }
}

void divideAll(const RowsOf& y, const float* divisor) {
  for (std::int64_t r = 0; r < y.rows; ++r) {
    float* row = y.data + r * y.width;
    const FloatVec by = hn::Set(FloatTag(), divisor[r]);
    mapRow(static_cast<std::size_t>(y.width), row, [&](auto load, std::size_t i) HWY_ATTR {
      return hn::Div(load(row + i), by);
    });
  }
}

void dotAll(const float* x, const float* y, const MatrixExtents& extents, float* to) {
  for (std::int64_t r = 0; r < extents.rows; ++r) {
    const float* a = x + r * extents.columns;
    const float* b = y + r * extents.columns;
    to[r] = static_cast<float>(sumRow(static_cast<std::size_t>(extents.columns),
                                      [&](auto load, std::size_t i)
                                          HWY_ATTR { return hn::Mul(load(a + i), load(b + i)); }));
  }
}

void addAll(const float* x, float* y, std::int64_t count) {
  mapRow(static_cast<std::size_t>(count), y, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Add(load(y + i), load(x + i));
  });
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
namespace {
HWY_EXPORT(finish);
HWY_EXPORT(weigh);
HWY_EXPORT(recompute);
HWY_EXPORT(slopes);
HWY_EXPORT(scaleAll);
HWY_EXPORT(divideAll);
HWY_EXPORT(dotAll);
HWY_EXPORT(addAll);
}  // namespace

void finishScores(const ScoreBlock& block, float* top) {
  HWY_DYNAMIC_DISPATCH(finish)(block, top);
}

void weighScores(const ScoreBlock& block, const float* top, float* sum) {
  HWY_DYNAMIC_DISPATCH(weigh)(block, top, sum);
}

void recomputeWeights(const ScoreBlock& block, const float* logSum, const float* factor) {
  HWY_DYNAMIC_DISPATCH(recompute)(block, logSum, factor);
}

void slopesOfScores(const ScoreBlock& block, const float* weights, const float* mean) {
  HWY_DYNAMIC_DISPATCH(slopes)(block, weights, mean);
}

void scaleRows(const RowsOf& y, const float* factor) {
  HWY_DYNAMIC_DISPATCH(scaleAll)(y, factor);
}

void divideRows(const RowsOf& y, const float* divisor) {
  HWY_DYNAMIC_DISPATCH(divideAll)(y, divisor);
}

void dotRows(const float* x, const float* y, const MatrixExtents& extents, float* to) {
  HWY_DYNAMIC_DISPATCH(dotAll)(x, y, extents, to);
}

void addElements(const float* x, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(addAll)(x, y, count);
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
