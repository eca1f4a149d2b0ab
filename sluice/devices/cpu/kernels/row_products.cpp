#include "sluice/devices/cpu/kernels/row_products.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/row_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/masked-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Vector = hn::VFromD<Floats>;

std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(Floats()));
}

/// kPixels pixels with kVectors vectors of each, from float `first` of their rows on. A chain of
/// additions runs through the taps; those of other pixels and vectors keep it from waiting for
/// itself, and pixels share what is read of `right`. The last vector may be shorter.
template <int kPixels, int kVectors>
void sumPixels(const RowWindows& w, std::int64_t pixel, std::int64_t first) {
  const Floats d;
  const std::int64_t last = first + (kVectors - 1) * lanes();
  const auto inside =
      hn::FirstN(d, static_cast<std::size_t>(std::min<std::int64_t>(lanes(), w.length - last)));
  Vector sums[kPixels][kVectors];
  SLUICE_UNROLL
  for (int p = 0; p < kPixels; ++p) {
    SLUICE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[p][v] = hn::Zero(d);
    }
  }
  for (const RowTap& tap : w.taps) {
    const float* left = tap.left + pixel * w.leftStep + first;
    Vector right[kVectors];
    SLUICE_UNROLL
    for (int v = 0; v + 1 < kVectors; ++v) {
      right[v] = hn::LoadU(d, tap.right + first + v * lanes());
    }
    right[kVectors - 1] = loadMasked(d, inside, tap.right + last);
    SLUICE_UNROLL
    for (int p = 0; p < kPixels; ++p, left += w.leftStep) {
      SLUICE_UNROLL
      for (int v = 0; v + 1 < kVectors; ++v) {
        sums[p][v] = hn::MulAdd(hn::LoadU(d, left + v * lanes()), right[v], sums[p][v]);
      }
      sums[p][kVectors - 1] = hn::MulAdd(loadMasked(d, inside, left + (kVectors - 1) * lanes()),
                                         right[kVectors - 1],
                                         sums[p][kVectors - 1]);
    }
  }
  float* to = w.to + pixel * w.length + first;
  SLUICE_UNROLL
  for (int p = 0; p < kPixels; ++p, to += w.length) {
    SLUICE_UNROLL
    for (int v = 0; v + 1 < kVectors; ++v) {
      hn::StoreU(sums[p][v], d, to + v * lanes());
    }
    storeMasked(sums[p][kVectors - 1], inside, d, to + (kVectors - 1) * lanes());
  }
}

template <int kVectors>
void sumColumns(const RowWindows& w, std::int64_t first) {
  constexpr int kPixels = 8 / kVectors;
  std::int64_t pixel = 0;
  for (; pixel + kPixels <= w.pixels; pixel += kPixels) {
    sumPixels<kPixels, kVectors>(w, pixel, first);
  }
  for (; pixel < w.pixels; ++pixel) {
    sumPixels<1, kVectors>(w, pixel, first);
  }
}

void sumRows(const RowWindows& w) {
  constexpr int kVectors = 2;
  std::int64_t first = 0;
  for (; w.length - first > lanes(); first += kVectors * lanes()) {
    sumColumns<kVectors>(w, first);
  }
  if (first < w.length) {
    sumColumns<1>(w, first);
  }
}

/// Columns whose sums run side by side.
constexpr std::int64_t kColumns = 4;

/// One row of the left operand with kColumns rows of the right one.
void dotColumns(const float* HWY_RESTRICT a, const float* b, std::int64_t k, float* to) {
  const Floats d;
  Vector sums[kColumns] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  Vector more[kColumns] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  std::int64_t i = 0;
  for (; i + 2 * lanes() <= k; i += 2 * lanes()) {
    const Vector x = hn::LoadU(d, a + i);
    const Vector y = hn::LoadU(d, a + i + lanes());
    for (std::int64_t j = 0; j < kColumns; ++j) {
      sums[j] = hn::MulAdd(x, hn::LoadU(d, b + j * k + i), sums[j]);
      more[j] = hn::MulAdd(y, hn::LoadU(d, b + j * k + i + lanes()), more[j]);
    }
  }
  for (; i < k; i += lanes()) {
    const auto inside =
        hn::FirstN(d, static_cast<std::size_t>(std::min<std::int64_t>(lanes(), k - i)));
    const Vector x = loadMasked(d, inside, a + i);
    for (std::int64_t j = 0; j < kColumns; ++j) {
      sums[j] = hn::MulAdd(x, loadMasked(d, inside, b + j * k + i), sums[j]);
    }
  }
  for (std::int64_t j = 0; j < kColumns; ++j) {
    to[j] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sums[j], more[j])));
  }
}

/// The same for one column, by the same steps.
void dotColumn(const float* HWY_RESTRICT a, const float* b, std::int64_t k, float* to) {
  const Floats d;
  Vector sum = hn::Zero(d);
  Vector more = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes() <= k; i += 2 * lanes()) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
    more = hn::MulAdd(hn::LoadU(d, a + i + lanes()), hn::LoadU(d, b + i + lanes()), more);
  }
  for (; i < k; i += lanes()) {
    const auto inside =
        hn::FirstN(d, static_cast<std::size_t>(std::min<std::int64_t>(lanes(), k - i)));
    sum = hn::MulAdd(loadMasked(d, inside, a + i), loadMasked(d, inside, b + i), sum);
  }
  *to = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, more)));
}

void dots(const DotProducts& p) {
  std::int64_t column = 0;
  for (; column + kColumns <= p.columns; column += kColumns) {
    for (std::int64_t row = 0; row < p.rows; ++row) {
      dotColumns(p.left + row * p.k, p.right + column * p.k, p.k, p.to + row * p.toStride + column);
    }
  }
  for (; column < p.columns; ++column) {
    for (std::int64_t row = 0; row < p.rows; ++row) {
      dotColumn(p.left + row * p.k, p.right + column * p.k, p.k, p.to + row * p.toStride + column);
    }
  }
}

}  // namespace
}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
namespace {
HWY_EXPORT(sumRows);
HWY_EXPORT(dots);
}  // namespace

void sumRowProducts(const RowWindows& windows) {
  HWY_DYNAMIC_DISPATCH(sumRows)(windows);
}

void multiplyDots(const DotProducts& product) {
  HWY_DYNAMIC_DISPATCH(dots)(product);
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
