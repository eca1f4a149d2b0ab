#include "sluice/devices/cpu/kernels/row_products.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/row_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Vector = hn::VFromD<Floats>;

std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(Floats()));
}

void sumRows(std::span<const RowTerm> terms, float* HWY_RESTRICT to, std::int64_t length) {
  const Floats d;
  std::int64_t i = 0;
  // Four vectors at a time, so that none waits for itself.
  for (; i + 4 * lanes() <= length; i += 4 * lanes()) {
    Vector a = hn::Zero(d);
    Vector b = hn::Zero(d);
    Vector c = hn::Zero(d);
    Vector e = hn::Zero(d);
    for (const RowTerm& term : terms) {
      const float* x = term.left + i;
      const float* w = term.right + i;
      a = hn::MulAdd(hn::LoadU(d, x), hn::LoadU(d, w), a);
      b = hn::MulAdd(hn::LoadU(d, x + lanes()), hn::LoadU(d, w + lanes()), b);
      c = hn::MulAdd(hn::LoadU(d, x + 2 * lanes()), hn::LoadU(d, w + 2 * lanes()), c);
      e = hn::MulAdd(hn::LoadU(d, x + 3 * lanes()), hn::LoadU(d, w + 3 * lanes()), e);
    }
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + i + lanes());
    hn::StoreU(c, d, to + i + 2 * lanes());
    hn::StoreU(e, d, to + i + 3 * lanes());
  }
  for (; i < length; i += lanes()) {
    const auto inside =
        hn::FirstN(d, static_cast<std::size_t>(std::min<std::int64_t>(lanes(), length - i)));
    Vector sum = hn::Zero(d);
    for (const RowTerm& term : terms) {
      sum = hn::MulAdd(
          hn::MaskedLoad(inside, d, term.left + i), hn::MaskedLoad(inside, d, term.right + i), sum);
    }
    hn::BlendedStore(sum, inside, d, to + i);
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
    const Vector x = hn::MaskedLoad(inside, d, a + i);
    for (std::int64_t j = 0; j < kColumns; ++j) {
      sums[j] = hn::MulAdd(x, hn::MaskedLoad(inside, d, b + j * k + i), sums[j]);
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
    sum = hn::MulAdd(hn::MaskedLoad(inside, d, a + i), hn::MaskedLoad(inside, d, b + i), sum);
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

void sumRowProducts(std::span<const RowTerm> terms, float* to, std::int64_t length) {
  HWY_DYNAMIC_DISPATCH(sumRows)(terms, to, length);
}

void multiplyDots(const DotProducts& product) {
  HWY_DYNAMIC_DISPATCH(dots)(product);
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
