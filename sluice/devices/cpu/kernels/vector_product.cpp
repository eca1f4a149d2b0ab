// A tile of the result, kRows x kVectors vectors, stays in registers while k runs. Tiles of fewer
// rows take the last row several times over, which writes the same values to the same place.
#include "sluice/devices/cpu/kernels/vector_product.h"

#include <algorithm>
#include <array>

#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/vector_product.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/masked-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
/// For columns that fill these better, on a processor that adds long vectors in two halves.
using ShortFloats = hn::CappedTag<float, 8>;

/// With 32 registers a tile has at most 24 vectors, with 16 at most 12.
constexpr std::int64_t kAccumulators = HWY_TARGET <= HWY_AVX3 ? 24 : 12;
constexpr std::int64_t kMostVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr std::int64_t kMostRows = 12;

constexpr std::int64_t rowsOfTile(std::int64_t vectors) {
  return std::min(kMostRows, kAccumulators / vectors);
}

/// Few rows of outer products are summed in wider tiles: terms are read once, in one go, as memory
/// likes it.
constexpr std::int64_t kFewRows = 3;
constexpr std::int64_t mostVectors(std::int64_t rows) {
  if (rows == 1) {
    return kAccumulators / 3 * 2;
  }
  return rows <= kFewRows ? kAccumulators / kFewRows : kMostVectors;
}

template <class D>
std::int64_t lanes(D d) {
  return static_cast<std::int64_t>(hn::Lanes(d));
}

/// The last vector of a row may be shorter.
template <int kVectors, class D, class Mask>
HWY_INLINE void loadRow(D d, const float* from, Mask last, hn::VFromD<D> (&to)[kVectors]) {
  SLUICE_UNROLL
  for (int v = 0; v + 1 < kVectors; ++v) {
    to[v] = hn::LoadU(d, from + v * lanes(d));
  }
  to[kVectors - 1] = loadMasked(d, last, from + (kVectors - 1) * lanes(d));
}

template <int kVectors, class D, class Mask>
HWY_INLINE void storeRow(D d, const hn::VFromD<D> (&from)[kVectors], Mask last, float* to) {
  SLUICE_UNROLL
  for (int v = 0; v + 1 < kVectors; ++v) {
    hn::StoreU(from[v], d, to + v * lanes(d));
  }
  storeMasked(from[kVectors - 1], last, d, to + (kVectors - 1) * lanes(d));
}

/// What the tile begins with: what is in its result, if it adds to that.
template <class D, int kRows, int kVectors, class Tile, class Mask>
HWY_INLINE void beginSums(const Tile& tile, Mask last, hn::VFromD<D> (&sums)[kRows][kVectors]) {
  const D d;
  SLUICE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    SLUICE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::Zero(d);
    }
  }
  if (tile.adds) {
    SLUICE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      loadRow<kVectors>(d, tile.c + r * tile.cStride, last, sums[r]);
    }
  }
}

/// What one tile works on.
struct RowsTile {
  const float* a;
  std::int64_t aStride;  ///< from row to row
  std::int64_t kStride;
  float* c;
  std::int64_t cStride;
  const float* b;
  std::int64_t bStride;
  std::span<const ProductPart> parts;
  std::int64_t lastLanes;  ///< of the last vector
  const float* ahead;      ///< the rows of the next tile, to be fetched meanwhile
  const float* next;       ///< so many floats per term are fetched for later calls
  std::int64_t nextStep;
  bool adds;  ///< to what is in c
};

/// Adds one term, at `offset` in the rows of the left operand. Three rows share a register: the
/// processor adds one or two strides by itself.
template <class D, int kRows, int kVectors, std::size_t kGroups, class Mask>
HWY_INLINE void addTerm(const float* const (&a)[kGroups],
                        std::int64_t offset,
                        std::int64_t stride,
                        const float* b,
                        Mask last,
                        hn::VFromD<D> (&sums)[kRows][kVectors]) {
  const D d;
  hn::VFromD<D> row[kVectors];
  loadRow<kVectors>(d, b, last, row);
  SLUICE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const auto left = hn::Set(d, a[r / 3][r % 3 * stride + offset]);
    SLUICE_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::MulAdd(left, row[v], sums[r][v]);
    }
  }
}

template <class D, int kRows, int kVectors>
void rowsTile(const RowsTile& tile) {
  using Vector = hn::VFromD<D>;
  const D d;
  const auto last = hn::FirstN(d, static_cast<std::size_t>(tile.lastLanes));
  constexpr int kGroups = (kRows + 2) / 3;
  const float* a[kGroups];
  Vector sums[kRows][kVectors];
  beginSums<D>(tile, last, sums);
  const float* next = tile.next;
  const float* below = tile.c + kRows * tile.cStride;
  const float* const end = below + kRows * tile.cStride;
  for (const ProductPart& part : tile.parts) {
    SLUICE_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      a[g] = tile.a + part.left + std::int64_t{3} * g * tile.aStride;
    }
    const float* b = tile.b + part.right;
    const float* ahead = tile.ahead + part.left;
    const auto fetch = [&](std::int64_t terms) {
      hwy::Prefetch(ahead);
      ahead += terms * kRows;
      hwy::Prefetch(next);
      next += terms * tile.nextStep;
      if (below != end) {
        SLUICE_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          hwy::Prefetch(below + v * lanes(d));
        }
        below += tile.cStride;
      }
    };
    std::int64_t k = 0;
    // Counters and addresses take as long as some of the additions, so that two terms share them
    // where all that they need fits the registers.
    if (HWY_TARGET <= HWY_AVX3 && tile.kStride == 1) {
      for (; k + 2 <= part.k; k += 2, b += 2 * tile.bStride) {
        addTerm<D>(a, 0, tile.aStride, b, last, sums);
        addTerm<D>(a, 1, tile.aStride, b + tile.bStride, last, sums);
        fetch(2);
        SLUICE_UNROLL
        for (int g = 0; g < kGroups; ++g) {
          a[g] += 2;
        }
      }
    }
    for (; k < part.k; ++k, b += tile.bStride) {
      addTerm<D>(a, 0, tile.aStride, b, last, sums);
      fetch(1);
      SLUICE_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        a[g] += tile.kStride;
      }
    }
  }
  SLUICE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    storeRow<kVectors>(d, sums[r], last, tile.c + r * tile.cStride);
  }
}

/// What one tile of a sum of outer products works on.
struct TermsTile {
  const float* left;
  const float* right;
  std::span<const TermGroup> groups;
  std::int64_t firstRow;  ///< of the matrix
  float* c;
  std::int64_t cStride;
  std::int64_t lastLanes;
  bool adds;
  std::int64_t fetchLeft;  ///< floats of a later term's operands that are fetched meanwhile
  std::int64_t fetchRight;
  const float* ahead;  ///< so many floats per term are fetched for later calls
  std::int64_t aheadStep;
};

constexpr std::size_t kTermsAhead = 8;
constexpr std::int64_t kLine = 16;  ///< floats of a line of the cache

/// The first tile to read a term's operands has them fetched as a whole.
HWY_INLINE void fetch(const TermsTile& tile, const TermOffsets& term) {
  for (std::int64_t i = 0; i < tile.fetchLeft; i += kLine) {
    hwy::Prefetch(tile.left + term.left + i);
  }
  for (std::int64_t i = 0; i < tile.fetchRight; i += kLine) {
    hwy::Prefetch(tile.right + term.right + i);
  }
}

/// Adds the terms of one group to the rows [first, end) of the tile, or to all of them.
template <bool kAll, class D, int kRows, int kVectors, class Mask>
HWY_INLINE void addGroup(const TermsTile& tile,
                         std::span<const TermOffsets> terms,
                         std::int64_t first,
                         std::int64_t end,
                         Mask last,
                         hn::VFromD<D> (&sums)[kRows][kVectors]) {
  using Vector = hn::VFromD<D>;
  const D d;
  const float* ahead = tile.ahead;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    const TermOffsets& term = terms[t];
    if (tile.fetchLeft != 0 && t + kTermsAhead < terms.size()) {
      fetch(tile, terms[t + kTermsAhead]);
    }
    for (const float* stop = ahead + tile.aheadStep; ahead < stop; ahead += kLine) {
      hwy::Prefetch(ahead);
    }
    Vector row[kVectors];
    loadRow<kVectors>(d, tile.right + term.right, last, row);
    SLUICE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (kAll || (r >= first && r < end)) {
        const Vector factor = hn::Set(d, tile.left[term.left + r]);
        SLUICE_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = hn::MulAdd(factor, row[v], sums[r][v]);
        }
      }
    }
  }
}

template <class D, int kRows, int kVectors>
void termsTile(TermsTile tile) {
  const D d;
  const auto last = hn::FirstN(d, static_cast<std::size_t>(tile.lastLanes));
  hn::VFromD<D> sums[kRows][kVectors];
  beginSums<D>(tile, last, sums);
  for (const TermGroup& group : tile.groups) {
    const std::int64_t first = group.firstRow - tile.firstRow;
    const std::int64_t end = group.endRow - tile.firstRow;
    if (first <= 0 && end >= kRows) {
      addGroup<true, D>(tile, group.terms, first, end, last, sums);
    } else if (first < kRows && end > 0) {
      addGroup<false, D>(tile, group.terms, first, end, last, sums);
    }
    tile.ahead += static_cast<std::int64_t>(group.terms.size()) * tile.aheadStep;
  }
  SLUICE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    storeRow<kVectors>(d, sums[r], last, tile.c + r * tile.cStride);
  }
}

using RowsFunction = void (*)(const RowsTile&);
using TermsFunction = void (*)(TermsTile);

/// The code of a tile by its rows and vectors.
template <class D, int kRows, int kVectors>
constexpr RowsFunction rowsFunction() {
  if constexpr (kRows <= rowsOfTile(kVectors)) {
    return &rowsTile<D, kRows, kVectors>;
  } else {
    return nullptr;
  }
}

template <class D, int kRows, int kVectors>
constexpr TermsFunction termsFunction() {
  if constexpr (kRows <= rowsOfTile(kVectors) && kVectors <= mostVectors(kRows)) {
    return &termsTile<D, kRows, kVectors>;
  } else {
    return nullptr;
  }
}

template <class D, int kVectors, int... kRows>
constexpr std::array<RowsFunction, kMostRows + 1> rowsFunctions(
    std::integer_sequence<int, kRows...> /*rows*/) {
  return {nullptr, rowsFunction<D, kRows + 1, kVectors>()...};
}

template <class D, int kVectors, int... kRows>
constexpr std::array<TermsFunction, kMostRows + 1> termsFunctions(
    std::integer_sequence<int, kRows...> /*rows*/) {
  return {nullptr, termsFunction<D, kRows + 1, kVectors>()...};
}

using RowCounts = std::make_integer_sequence<int, static_cast<int>(kMostRows)>;

template <class D>
constexpr std::array<std::array<RowsFunction, kMostRows + 1>, 4> kRowsTiles = {
    rowsFunctions<D, 1>(RowCounts()),
    rowsFunctions<D, 2>(RowCounts()),
    rowsFunctions<D, 3>(RowCounts()),
    rowsFunctions<D, 4>(RowCounts())};
template <class D>
constexpr std::array<std::array<TermsFunction, kMostRows + 1>, 16> kTermsTiles = {
    termsFunctions<D, 1>(RowCounts()),
    termsFunctions<D, 2>(RowCounts()),
    termsFunctions<D, 3>(RowCounts()),
    termsFunctions<D, 4>(RowCounts()),
    termsFunctions<D, 5>(RowCounts()),
    termsFunctions<D, 6>(RowCounts()),
    termsFunctions<D, 7>(RowCounts()),
    termsFunctions<D, 8>(RowCounts()),
    termsFunctions<D, 9>(RowCounts()),
    termsFunctions<D, 10>(RowCounts()),
    termsFunctions<D, 11>(RowCounts()),
    termsFunctions<D, 12>(RowCounts()),
    termsFunctions<D, 13>(RowCounts()),
    termsFunctions<D, 14>(RowCounts()),
    termsFunctions<D, 15>(RowCounts()),
    termsFunctions<D, 16>(RowCounts())};

/// The length of parts, at most `most` long, that are about equal. Small products spend much of
/// their time here if they divide.
std::int64_t equalStep(std::int64_t extent, std::int64_t most) {
  if (extent <= most) {
    return extent;
  }
  if (extent <= 2 * most) {
    return (extent + 1) / 2;
  }
  const std::int64_t parts = (extent + most - 1) / most;
  return (extent + parts - 1) / parts;
}

/// Vectors side by side in a tile, of columns that take so many in all: all tiles about equal.
template <class D>
std::int64_t vectorsOfTile(D d, std::int64_t columns, std::int64_t most = kMostVectors) {
  return equalStep((columns + lanes(d) - 1) / lanes(d), most);
}

/// Whether short vectors leave at least a quarter of the lanes out that long ones would waste.
bool likesShort(std::int64_t columns) {
  const auto padded = [&](std::int64_t width) { return (columns + width - 1) / width * width; };
  return 4 * padded(lanes(ShortFloats())) <= 3 * padded(lanes(Floats()));
}

struct Panel {
  const float* data;
  std::int64_t columns;
  std::int64_t nextPerTile;  ///< floats that every tile fetches for later calls
};

/// Whether to take them here: one of either is as quick everywhere. No bit depends on it.
bool takesShort(std::int64_t columns) {
  static const bool kInHalves = __builtin_cpu_is("amd") != 0;
  return likesShort(columns) && (kInHalves || columns <= lanes(ShortFloats()));
}

/// All columns of a panel for some rows.
template <class D>
void rowsPanel(RowsTile& tile, std::int64_t rows, const Panel& panel, std::int64_t vectors) {
  const D d;
  const std::int64_t width = vectors * lanes(d);
  for (std::int64_t j = 0; j < panel.columns; j += width) {
    const std::int64_t count = std::min(width, panel.columns - j);
    const std::int64_t used = (count + lanes(d) - 1) / lanes(d);
    tile.b = panel.data + j;
    tile.lastLanes = count - (used - 1) * lanes(d);
    kRowsTiles<D>[static_cast<std::size_t>(used - 1)][static_cast<std::size_t>(rows)](tile);
    tile.c += count;
    tile.next += panel.nextPerTile;
  }
}

template <class D>
void multiplyWith(const PartsProduct& p) {
  const LeftMatrix& a = p.left;
  const RightMatrix& b = p.right;
  const std::int64_t vectors = vectorsOfTile(D(), std::min(p.extents.columns, b.panelWidth));
  constexpr std::array kRowsByVectors = {
      kMostRows, rowsOfTile(1), rowsOfTile(2), rowsOfTile(3), rowsOfTile(4)};
  const std::int64_t all = p.extents.rows;
  const std::int64_t step = equalStep(all, kRowsByVectors[static_cast<std::size_t>(vectors)]);
  RowsTile tile{.a = nullptr,
                .aStride = a.rowStride,
                .kStride = a.kStride,
                .c = nullptr,
                .cStride = p.result.rowStride,
                .b = nullptr,
                .bStride = b.rowStride,
                .parts = p.parts,
                .lastLanes = 0,
                .ahead = nullptr,
                .next = p.next.empty() ? a.data : p.next.data(),
                .nextStep = 0,
                .adds = p.adds};
  std::int64_t nextPerTile = 0;
  if (!p.next.empty()) {
    std::int64_t terms = 0;
    for (const ProductPart& part : p.parts) {
      terms += part.k;
    }
    const std::int64_t width = vectors * lanes(D());
    const std::int64_t tiles =
        p.count * ((all + step - 1) / step) * ((p.extents.columns + width - 1) / width);
    tile.nextStep =
        static_cast<std::int64_t>(p.next.size()) / std::max<std::int64_t>(1, tiles * terms);
    nextPerTile = tile.nextStep * terms;
  }
  for (std::int64_t n = 0; n < p.count; ++n) {
    const float* left = a.data + n * p.leftStep;
    const bool isLast = n + 1 == p.count;
    for (std::int64_t i = 0; i < all; i += step) {
      const std::int64_t rows = std::min(step, all - i);
      tile.a = left + i * a.rowStride;
      tile.c = p.result.data + n * p.resultStep + i * p.result.rowStride;
      const bool below = isLast || i + rows < all;
      tile.ahead = a.kStride != 1 ? tile.a
                   : below        ? tile.a + rows * a.rowStride
                                  : left + p.leftStep;
      const float* panel = b.data;
      for (std::int64_t j = 0; j < p.extents.columns; j += b.panelWidth, panel += b.panelStride) {
        rowsPanel<D>(tile,
                     rows,
                     {panel, std::min(b.panelWidth, p.extents.columns - j), nextPerTile},
                     vectors);
      }
    }
  }
}

void multiply(const PartsProduct& p) {
  if (takesShort(std::min(p.extents.columns, p.right.panelWidth))) {
    multiplyWith<ShortFloats>(p);
  } else {
    multiplyWith<Floats>(p);
  }
}

template <class D>
void sumTermsWith(const OuterProducts& products, const ResultMatrix& c, const MatrixExtents& e) {
  const D d;
  const std::int64_t vectors = vectorsOfTile(d, e.columns, mostVectors(e.rows));
  const std::int64_t width = vectors * lanes(d);
  const std::int64_t step = equalStep(e.rows, rowsOfTile(vectors));
  const std::int64_t tiles = (e.columns + width - 1) / width * ((e.rows + step - 1) / step);
  std::int64_t terms = 0;
  for (const TermGroup& group : products.groups) {
    terms += static_cast<std::int64_t>(group.terms.size());
  }
  // What follows is fetched little by little; each term also just before it is needed, unless a
  // whole one was fetched per term before.
  const std::int64_t aheadStep =
      static_cast<std::int64_t>(products.next.size()) / std::max<std::int64_t>(tiles * terms, 1);
  TermsTile tile{.left = nullptr,
                 .right = nullptr,
                 .groups = products.groups,
                 .firstRow = 0,
                 .c = nullptr,
                 .cStride = c.rowStride,
                 .lastLanes = 0,
                 .adds = products.adds,
                 .fetchLeft = e.rows,
                 .fetchRight = aheadStep >= kLine ? 0 : e.columns,
                 .ahead = products.next.data(),
                 .aheadStep = aheadStep};
  for (std::int64_t j = 0; j < e.columns; j += width) {
    const std::int64_t columns = std::min(width, e.columns - j);
    const std::int64_t used = (columns + lanes(d) - 1) / lanes(d);
    for (std::int64_t i = 0; i < e.rows; i += step) {
      const std::int64_t rows = std::min(step, e.rows - i);
      tile.firstRow = i;
      tile.left = products.left + i;
      tile.right = products.right + j;
      tile.c = c.data + i * c.rowStride + j;
      tile.lastLanes = columns - (used - 1) * lanes(d);
      kTermsTiles<D>[static_cast<std::size_t>(used - 1)][static_cast<std::size_t>(rows)](tile);
      tile.fetchLeft = 0;
      tile.fetchRight = 0;
      tile.ahead += terms * tile.aheadStep;
    }
  }
}

void sumTerms(const OuterProducts& products, const ResultMatrix& c, const MatrixExtents& e) {
  if (takesShort(e.columns)) {
    sumTermsWith<ShortFloats>(products, c, e);
  } else {
    sumTermsWith<Floats>(products, c, e);
  }
}

std::int64_t sliceColumns(std::int64_t rows) {
  return mostVectors(rows) * lanes(Floats());
}

bool isLong() {
  return lanes(Floats()) == 16;
}

bool isFused() {
  return HWY_TARGET <= HWY_AVX2;
}

}  // namespace
}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
namespace {
HWY_EXPORT(multiply);
HWY_EXPORT(sumTerms);
HWY_EXPORT(sliceColumns);
HWY_EXPORT(isFused);
HWY_EXPORT(isLong);
HWY_EXPORT(likesShort);
}  // namespace

bool hasVectorProduct() {
  return HWY_DYNAMIC_DISPATCH(isFused)();
}

bool hasLongVectors() {
  return HWY_DYNAMIC_DISPATCH(isLong)();
}

bool usesShortVectors(std::int64_t columns) {
  return HWY_DYNAMIC_DISPATCH(likesShort)(columns);
}

void multiplyRows(const LeftMatrix& a,
                  const RightMatrix& b,
                  const ResultMatrix& c,
                  const ProductExtents& extents) {
  const ProductPart whole{0, 0, extents.k};
  multiplyParts({a, b, c, {extents.rows, extents.columns}, {&whole, 1}});
}

void addRows(const LeftMatrix& a,
             const RightMatrix& b,
             const ResultMatrix& c,
             const ProductExtents& extents) {
  const ProductPart whole{0, 0, extents.k};
  multiplyParts({.left = a,
                 .right = b,
                 .result = c,
                 .extents = {extents.rows, extents.columns},
                 .parts = {&whole, 1},
                 .adds = true});
}

void multiplyParts(const PartsProduct& product) {
  HWY_DYNAMIC_DISPATCH(multiply)(product);
}

std::int64_t columnsOfSlice(std::int64_t rows) {
  return HWY_DYNAMIC_DISPATCH(sliceColumns)(rows);
}

void sumOuterProducts(const OuterProducts& products,
                      const ResultMatrix& c,
                      const MatrixExtents& extents) {
  HWY_DYNAMIC_DISPATCH(sumTerms)(products, c, extents);
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
