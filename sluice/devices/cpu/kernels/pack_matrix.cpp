#include "sluice/devices/cpu/kernels/pack_matrix.h"

#include <algorithm>
#include <array>

#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/pack_matrix.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/masked-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kSquare = 16;

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void transposeSquare(const float* HWY_RESTRICT square,
                                float* HWY_RESTRICT to,
                                std::int64_t step) {
  for (std::int64_t row = 0; row < kSquare; ++row) {
    for (std::int64_t k = 0; k < kSquare; ++k) {
      to[k * step + row] = square[row * kSquare + k];
    }
  }
}

#else

constexpr std::int64_t kQuad = 4;  ///< floats of a 128-bit block

/// Blocks of 128 bits from every fourth row, the first row's in the lowest place.
template <class D>
HWY_INLINE hn::VFromD<D> loadQuads(D d, const float* from, std::int64_t step) {
  if constexpr (hn::MaxLanes(D()) == kQuad) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    const auto count = static_cast<std::int64_t>(hn::MaxLanes(half)) / kQuad;
    return hn::Combine(d, loadQuads(half, from + count * step, step), loadQuads(half, from, step));
  }
}

/// Column k of a square is row k of the result, whose rows are `step` apart. Four vectors that hold
/// four rows' worth of 4 x 4 squares each are transposed inside their 128-bit blocks.
HWY_INLINE void transposeSquare(const float* HWY_RESTRICT square,
                                float* HWY_RESTRICT to,
                                std::int64_t step) {
  const hn::CappedTag<float, kSquare> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t k = 0; k < kSquare; k += kQuad) {
    for (std::int64_t row = 0; row < kSquare; row += lanes) {
      const float* at = square + row * kSquare + k;
      const auto a = loadQuads(d, at, kQuad * kSquare);
      const auto b = loadQuads(d, at + kSquare, kQuad * kSquare);
      const auto c = loadQuads(d, at + 2 * kSquare, kQuad * kSquare);
      const auto e = loadQuads(d, at + 3 * kSquare, kQuad * kSquare);
      const auto ab0 = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
      const auto ab1 = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
      const auto ce0 = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
      const auto ce1 = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
      float* target = to + k * step + row;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab0, ce0)), d, target);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab0, ce0)), d, target + step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab1, ce1)), d, target + 2 * step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab1, ce1)), d, target + 3 * step);
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

/// Copies a square whose lines may compete for one place in the cache: each is touched once. What
/// is missing of it is zero.
HWY_INLINE void loadSquare(const float* HWY_RESTRICT from,
                           std::int64_t stride,
                           std::int64_t rows,
                           std::int64_t columns,
                           float* HWY_RESTRICT square) {
  const hn::CappedTag<float, kSquare> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < kSquare; i += lanes) {
    const auto inside =
        hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(columns - i, 0, lanes)));
    for (std::int64_t row = 0; row < rows; ++row) {
      hn::Store(loadMasked(d, inside, from + row * stride + i), d, square + row * kSquare + i);
    }
    for (std::int64_t row = rows; row < kSquare; ++row) {
      hn::Store(hn::Zero(d), d, square + row * kSquare + i);
    }
  }
}

/// One panel of a matrix whose rows run across.
void packOne(const PanelFormat& f, const float* from, float* to, std::int64_t panel) {
  alignas(64) std::array<float, kSquare * kSquare> square;
  const std::int64_t first = panel * f.width;
  float* base = to + panel * f.panelStride;
  for (std::int64_t j = 0; j < f.width; j += kSquare) {
    const std::int64_t rows = std::clamp<std::int64_t>(f.across - first - j, 0, kSquare);
    for (std::int64_t i = 0; i < f.paddedDown; i += kSquare) {
      const std::int64_t columns = std::clamp<std::int64_t>(f.down - i, 0, kSquare);
      loadSquare(from + (first + j) * f.down + i, f.down, rows, columns, square.data());
      float* target = base + i / f.downBlock * f.downStride + i % f.downBlock * f.width + j;
      transposeSquare(square.data(), target, f.width);
    }
  }
}

/// Squares at the edge by way of a second one, as they are stored in part.
void transposeAll(const MatrixPlace& place, const float* from, float* to, std::int64_t toStride) {
  alignas(64) std::array<float, kSquare * kSquare> square;
  alignas(64) std::array<float, kSquare * kSquare> turned;
  const hn::CappedTag<float, kSquare> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // All that comes side by side in the result, so that its lines are written at once.
  for (std::int64_t j = 0; j < place.columns; j += kSquare) {
    const std::int64_t columns = std::min(kSquare, place.columns - j);
    for (std::int64_t i = 0; i < place.rows; i += kSquare) {
      const std::int64_t rows = std::min(kSquare, place.rows - i);
      loadSquare(from + i * place.stride + j, place.stride, rows, columns, square.data());
      if (rows == kSquare && columns == kSquare) {
        transposeSquare(square.data(), to + j * toStride + i, toStride);
        continue;
      }
      transposeSquare(square.data(), turned.data(), kSquare);
      for (std::int64_t lane = 0; lane < rows; lane += lanes) {
        const auto inside = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, rows - lane)));
        for (std::int64_t row = 0; row < columns; ++row) {
          storeMasked(hn::Load(d, turned.data() + row * kSquare + lane),
                      inside,
                      d,
                      to + (j + row) * toStride + i + lane);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(packOne);
HWY_EXPORT(transposeAll);

constexpr std::int64_t kSide = 16;

}  // namespace

std::optional<PanelFormat> panelFormat(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& data = desc.data;
  if (data.ndims != 2 || data.data_type != dnnl_f32 || data.format_kind != dnnl_blocked) {
    return std::nullopt;
  }
  const dnnl_blocking_desc_t& blocking = data.format_desc.blocking;
  if (blocking.inner_nblks != 2 || blocking.inner_idxs[0] != 1 || blocking.inner_idxs[1] != 0 ||
      blocking.inner_blks[0] % kSide != 0 || blocking.inner_blks[1] % kSide != 0) {
    return std::nullopt;
  }
  constexpr std::size_t kDown = 1;
  constexpr std::size_t kAcross = 0;
  return PanelFormat{.down = data.dims[kDown],
                     .across = data.dims[kAcross],
                     .downBlock = blocking.inner_blks[0],
                     .width = blocking.inner_blks[1],
                     .downStride = blocking.strides[kDown],
                     .panelStride = blocking.strides[kAcross],
                     .paddedDown = data.padded_dims[kDown],
                     .panels = data.padded_dims[kAcross] / blocking.inner_blks[1]};
}

void transposeMatrix(const MatrixPlace& place,
                     const float* from,
                     float* to,
                     std::int64_t toStride) {
  HWY_DYNAMIC_DISPATCH(transposeAll)(place, from, to, toStride);
}

void packPanel(const PanelFormat& format, const float* from, float* to, std::int64_t panel) {
  HWY_DYNAMIC_DISPATCH(packOne)(format, from, to, panel);
}

void packMatrix(const PanelFormat& format, const float* from, float* to, Workers& workers) {
  workers.parallelFor(format.panels,
                      [&](std::int64_t panel) { packPanel(format, from, to, panel); });
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
