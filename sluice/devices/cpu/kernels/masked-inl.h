// Loads and stores of a part of a vector that touch no memory outside that part. Where the
// instruction set has no masks (SSE4), those of Highway read and write whole vectors, and
// MaskedLoad wants them to be aligned.
//
// Compiled once per instruction set: include it after hwy/highway.h in a foreach_target file.
#if defined(SLUICE_MASKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MASKED_INL_H_
#undef SLUICE_MASKED_INL_H_
#else
#define SLUICE_MASKED_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {

/// Whether the instruction set masks floats itself; better sets have smaller numbers.
inline constexpr bool kMasksFloats = HWY_TARGET <= HWY_AVX2 || HWY_TARGET == HWY_SCALAR;

/// Calls `visit` with the number of every lane of the mask.
template <class D, class M, class F>
HWY_INLINE void forLanes(D d, M mask, F visit) {
  uint8_t bits[8] = {};  // Highway writes so many at least
  hwy::HWY_NAMESPACE::StoreMaskBits(d, mask, bits);
  for (std::size_t i = 0; i < hwy::HWY_NAMESPACE::Lanes(d); ++i) {
    if ((bits[i / 8] >> (i % 8) & 1U) != 0) {
      visit(i);
    }
  }
}

/// The lanes of the mask from memory, and zero in all others.
template <class D, class M>
HWY_INLINE hwy::HWY_NAMESPACE::VFromD<D> loadMasked(D d, M mask, const float* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kMasksFloats) {
    return hn::MaskedLoad(mask, d, from);
  } else {
    if (hn::AllTrue(d, mask)) {
      return hn::LoadU(d, from);
    }
    HWY_ALIGN float part[HWY_LANES(float)] = {};
    forLanes(d, mask, [&](std::size_t i) { part[i] = from[i]; });
    return hn::Load(d, part);
  }
}

/// Writes the lanes of the mask, and nothing else.
template <class D, class M>
HWY_INLINE void storeMasked(hwy::HWY_NAMESPACE::VFromD<D> v, M mask, D d, float* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kMasksFloats) {
    hn::BlendedStore(v, mask, d, to);
  } else {
    if (hn::AllTrue(d, mask)) {
      hn::StoreU(v, d, to);
      return;
    }
    HWY_ALIGN float part[HWY_LANES(float)];
    hn::Store(v, d, part);
    forLanes(d, mask, [&](std::size_t i) { to[i] = part[i]; });
  }
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
