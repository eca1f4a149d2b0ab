// Loops of float32 and float64 kernels over rows and columns. The order of additions is fixed,
// whatever the number of threads. A function gets a loader and an index, so that full vectors and
// the partial last one run the same code.
//
// Compiled once per instruction set: include it after hwy/highway.h in a foreach_target file.
#if defined(SLUICE_ROW_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_ROW_LOOPS_INL_H_
#undef SLUICE_ROW_LOOPS_INL_H_
#else
#define SLUICE_ROW_LOOPS_INL_H_
#endif

#include <limits>

#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/block_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {

template <class T>
using LaneTag = hn::ScalableTag<T>;
template <class T>
using LaneVec = hn::Vec<LaneTag<T>>;

struct WholeVector {
  template <class T>
  HWY_INLINE LaneVec<T> operator()(const T* from) const {
    return hn::LoadU(LaneTag<T>(), from);
  }
};
struct PartVector {
  std::size_t count;
  template <class T>
  HWY_INLINE LaneVec<T> operator()(const T* from) const {
    return loadSome(LaneTag<T>(), from, count);
  }
};

struct SumFold {
  static constexpr float kStart = 0.0F;
  template <class V>
  static HWY_INLINE V fold(V a, V b) {
    return hn::Add(a, b);
  }
  static double foldOne(double a, double b) { return a + b; }
};
/// If an operand is NaN, so is the result.
struct MaxFold {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  template <class V>
  static HWY_INLINE V fold(V a, V b) {
    const auto second = hn::Or(hn::IsNaN(b), hn::Lt(a, b));
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(second, b, a));
  }
  static double foldOne(double a, double b) { return a == a && (b != b || a < b) ? b : a; }
};
struct MinFold {
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  template <class V>
  static HWY_INLINE V fold(V a, V b) {
    const auto second = hn::Or(hn::IsNaN(b), hn::Lt(b, a));
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(second, b, a));
  }
  static double foldOne(double a, double b) { return a == a && (b != b || b < a) ? b : a; }
};

/// Folds f(loader, i) for i in [0, n) in four accumulators, then their lanes in order in double.
template <class Fold, class T = float, class F>
HWY_INLINE double foldRow(std::size_t n, F f) {
  using V = LaneVec<T>;
  const LaneTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const V start = hn::Set(d, static_cast<T>(Fold::kStart));
  V a0 = start;
  V a1 = start;
  V a2 = start;
  V a3 = start;
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = Fold::fold(a0, f(WholeVector(), i));
    a1 = Fold::fold(a1, f(WholeVector(), i + lanes));
    a2 = Fold::fold(a2, f(WholeVector(), i + 2 * lanes));
    a3 = Fold::fold(a3, f(WholeVector(), i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) {
    a0 = Fold::fold(a0, f(WholeVector(), i));
  }
  if (i < n) {
    const V part = f(PartVector{n - i}, i);
    a1 = Fold::fold(a1, hn::IfThenElse(hn::FirstN(d, n - i), part, start));
  }
  HWY_ALIGN T buffer[HWY_LANES(T)];
  hn::Store(Fold::fold(Fold::fold(a0, a1), Fold::fold(a2, a3)), d, buffer);
  double total = static_cast<double>(buffer[0]);
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    total = Fold::foldOne(total, static_cast<double>(buffer[lane]));
  }
  return total;
}

template <class T = float, class F>
HWY_INLINE double sumRow(std::size_t n, F f) {
  return foldRow<SumFold, T>(n, f);
}

/// out[i] = f(loader, i)
template <class T, class F>
HWY_INLINE void mapRow(std::size_t n, T* out, F f) {
  const LaneTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(f(WholeVector(), i), d, out + i);
  }
  if (i < n) {
    storeSome(d, f(PartVector{n - i}, i), out + i, n - i);
  }
}

template <class T>
HWY_INLINE void fillRow(std::size_t n, T* out, T value) {
  const auto v = hn::Set(LaneTag<T>(), value);
  mapRow(n, out, [v](auto, std::size_t) HWY_ATTR { return v; });
}

/// Maximum number of columns in one call of foldColumns.
inline constexpr std::size_t kMaxColumns = 2048;

struct RowRange {
  std::int64_t first;
  std::int64_t last;
};

/// acc[c] = fold over the rows r of f(loader, at(r), c), where at(r) is what f needs from a row. It
/// takes four rows at a time and 64 rows per intermediate sum, so that the error grows slowly.
template <class Fold, class T, class At, class F>
HWY_INLINE void foldColumns(RowRange rows, std::size_t columns, T* acc, At at, F f) {
  constexpr std::int64_t kGroup = 64;
  constexpr T kStart = Fold::kStart;
  HWY_ALIGN T group[kMaxColumns];
  fillRow(columns, acc, kStart);
  for (std::int64_t top = rows.first; top < rows.last; top += kGroup) {
    const std::int64_t bottom = top + kGroup < rows.last ? top + kGroup : rows.last;
    fillRow(columns, group, kStart);
    std::int64_t r = top;
    for (; r + 4 <= bottom; r += 4) {
      const auto r0 = at(r);
      const auto r1 = at(r + 1);
      const auto r2 = at(r + 2);
      const auto r3 = at(r + 3);
      mapRow(columns, group, [&](auto load, std::size_t c) HWY_ATTR {
        const auto upper = Fold::fold(f(load, r0, c), f(load, r1, c));
        const auto lower = Fold::fold(f(load, r2, c), f(load, r3, c));
        return Fold::fold(load(group + c), Fold::fold(upper, lower));
      });
    }
    for (; r < bottom; ++r) {
      const auto row = at(r);
      mapRow(columns, group, [&](auto load, std::size_t c) HWY_ATTR {
        return Fold::fold(load(group + c), f(load, row, c));
      });
    }
    mapRow(columns, acc, [&](auto load, std::size_t c) HWY_ATTR {
      return Fold::fold(load(acc + c), load(group + c));
    });
  }
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
