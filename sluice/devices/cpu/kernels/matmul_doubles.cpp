// matmul of float64 by our own vector code; the library has none. The right operand is packed into
// panels of columns, then tiles of rows and panels are multiplied. Every element is one chain of
// multiply-adds in the order of k, so its bits do not depend on how the work is cut.
#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/matmul_doubles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef SLUICE_MATMUL_DOUBLES_TYPES
#define SLUICE_MATMUL_DOUBLES_TYPES
namespace sluice::devices::cpu {

inline constexpr std::int64_t kDoublesPanel = 32;  ///< columns, a multiple of every vector

/// Some rows times one panel.
struct DoublesTile {
  const double* a;
  std::int64_t rowStride;  ///< of a
  std::int64_t kStride;
  const double* panel;  ///< [k, kDoublesPanel]
  double* c;
  std::int64_t cStride;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t k;
};

}  // namespace sluice::devices::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Vector = hn::VFromD<Doubles>;

constexpr int kRows = 6;
constexpr int kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

/// Up to kRows rows and the columns of kVectors vectors from `column` on. Fewer rows take the last
/// one several times over; the results of missing columns are not stored.
void multiplyBlock(const DoublesTile& tile, std::int64_t row, std::int64_t column) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const double* a[kRows];
  double* c[kRows];
  Vector sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t at = std::min(row + r, tile.rows - 1);
    a[r] = tile.a + at * tile.rowStride;
    c[r] = tile.c + at * tile.cStride;
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::Zero(d);
    }
  }
  const double* b = tile.panel + column;
  for (std::int64_t k = 0; k < tile.k; ++k, b += kDoublesPanel) {
    for (int r = 0; r < kRows; ++r) {
      const Vector left = hn::Set(d, a[r][k * tile.kStride]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(left, hn::LoadU(d, b + v * lanes), sums[r][v]);
      }
    }
  }
  HWY_ALIGN double line[kVectors * HWY_LANES(double)];
  const auto stored = static_cast<std::size_t>(std::min(kVectors * lanes, tile.columns - column));
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums[r][v], d, line + v * lanes);
    }
    std::copy_n(line, stored, c[r] + column);
  }
}

void multiplyDoubles(const DoublesTile& tile) {
  const auto width = kVectors * static_cast<std::int64_t>(hn::Lanes(Doubles()));
  for (std::int64_t row = 0; row < tile.rows; row += kRows) {
    for (std::int64_t column = 0; column < tile.columns; column += width) {
      multiplyBlock(tile, row, column);
    }
  }
}

}  // namespace
}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/matmul.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(multiplyDoubles);

constexpr std::int64_t kRowsPerTile = 96;

class MatMulDoubles : public Kernel {
 public:
  explicit MatMulDoubles(const ops::MatMulDims& d)
      : d_(d),
        panels_(ceilDiv(d.n, kDoublesPanel)),
        rowTiles_(ceilDiv(d.m, kRowsPerTile)),
        toA_(d.batchA, d.batch),
        toB_(d.batchB, d.batch) {}

  void run(const KernelRun& run) override {
    run.workers.parallelFor(d_.batchB.elements() * panels_,
                            [&](std::int64_t i) { pack(run, i / panels_, i % panels_); });
    run.workers.parallelFor(d_.batch.elements() * rowTiles_ * panels_, [&](std::int64_t i) {
      multiply(run, i / panels_ / rowTiles_, i / panels_ % rowTiles_, i % panels_);
    });
  }

 private:
  double* panelOf(const KernelRun& run, std::int64_t matrix, std::int64_t panel) const {
    return static_cast<double*>(run.scratch) + (matrix * panels_ + panel) * d_.k * kDoublesPanel;
  }

  void pack(const KernelRun& run, std::int64_t matrix, std::int64_t panel) const {
    const std::int64_t first = panel * kDoublesPanel;
    const std::int64_t columns = std::min(kDoublesPanel, d_.n - first);
    const double* from = run.in<double>(1) + matrix * d_.k * d_.n + first * d_.strideBn;
    double* to = panelOf(run, matrix, panel);
    for (std::int64_t k = 0; k < d_.k; ++k, from += d_.strideBk, to += kDoublesPanel) {
      for (std::int64_t j = 0; j < columns; ++j) {
        to[j] = from[j * d_.strideBn];
      }
      std::fill_n(to + columns, kDoublesPanel - columns, 0.0);
    }
  }

  void multiply(const KernelRun& run,
                std::int64_t matrix,
                std::int64_t rowTile,
                std::int64_t panel) const {
    const std::int64_t row = rowTile * kRowsPerTile;
    const std::int64_t column = panel * kDoublesPanel;
    HWY_DYNAMIC_DISPATCH(multiplyDoubles)
    ({.a = run.in<double>(0) + toA_(matrix) * d_.m * d_.k + row * d_.strideAm,
      .rowStride = d_.strideAm,
      .kStride = d_.strideAk,
      .panel = panelOf(run, toB_(matrix), panel),
      .c = run.out<double>(0) + (matrix * d_.m + row) * d_.n + column,
      .cStride = d_.n,
      .rows = std::min(kRowsPerTile, d_.m - row),
      .columns = std::min(kDoublesPanel, d_.n - column),
      .k = d_.k});
  }

  ops::MatMulDims d_;
  std::int64_t panels_;
  std::int64_t rowTiles_;
  ops::BroadcastIndex toA_;
  ops::BroadcastIndex toB_;
};

}  // namespace

bool supportsMatMulDoubles(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F64;
}

device::Choice chooseMatMulDoubles(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  const ops::MatMulDims d = ops::matmulDims(op);
  device::Choice choice = device::plainChoice(op, "");
  choice.scratchBytes = static_cast<std::size_t>(d.batchB.elements() * d.k *
                                                 ceilDiv(d.n, kDoublesPanel) * kDoublesPanel) *
                        sizeof(double);
  return choice;
}

std::unique_ptr<Kernel> makeMatMulDoubles(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<MatMulDoubles>(ops::matmulDims(op));
}

}  // namespace sluice::devices::cpu
#endif
