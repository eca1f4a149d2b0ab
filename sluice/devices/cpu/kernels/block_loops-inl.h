// Loops of float32 block functions. Whole vectors are written directly to memory; the last, partial
// one goes through a buffer of one vector and uses the same code.
//
// Compiled once per instruction set: include it after hwy/highway.h in a foreach_target file.
#if defined(SLUICE_BLOCK_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_BLOCK_LOOPS_INL_H_
#undef SLUICE_BLOCK_LOOPS_INL_H_
#else
#define SLUICE_BLOCK_LOOPS_INL_H_
#endif

#include <cstring>

#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
inline constexpr std::size_t kMaxFloatLanes = HWY_LANES(float);

/// Fills `n` elements with the first one.
template <class T>
HWY_INLINE void fillBlock(T* out, std::size_t n) {
  for (std::size_t i = 1; i < n; ++i) {
    out[i] = out[0];
  }
}

template <class D>
HWY_INLINE hn::Vec<D> loadSome(D d, const hn::TFromD<D>* from, std::size_t count) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T buffer[HWY_LANES(T)] = {};
  std::memcpy(buffer, from, count * sizeof(T));
  return hn::Load(d, buffer);
}

template <class D>
HWY_INLINE void storeSome(D d, hn::Vec<D> v, hn::TFromD<D>* to, std::size_t count) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T buffer[HWY_LANES(T)];
  hn::Store(v, d, buffer);
  std::memcpy(to, buffer, count * sizeof(T));
}

/// An operand that is a block of floats, or one float for the whole block.
template <bool kSingle>
struct FloatOperand {
  const float* data;
  FloatVec value;

  HWY_INLINE FloatOperand(FloatTag d, const void* p)
      : data(static_cast<const float*>(p)), value(hn::Set(d, data[0])) {}
  HWY_INLINE FloatVec at(FloatTag d, std::size_t i) const {
    if constexpr (kSingle) {
      return value;
    } else {
      return hn::LoadU(d, data + i);
    }
  }
  HWY_INLINE FloatVec some(FloatTag d, std::size_t i, std::size_t count) const {
    if constexpr (kSingle) {
      return value;
    } else {
      return loadSome(d, data + i, count);
    }
  }
};

/// The op's numbers, where no store may change them: what is made of them stays in registers.
struct Params {
  double values[2] = {};

  HWY_INLINE explicit Params(const BlockArgs& args) {
    if (args.params != nullptr) {
      values[0] = args.params[0];
      values[1] = args.params[1];
    }
  }
};

/// F::apply(d, x, params)
template <class F>
void unaryLoop(const BlockArgs& args) {
  const FloatTag d;
  const Params params(args);
  const std::size_t lanes = hn::Lanes(d);
  const auto total = static_cast<std::size_t>(args.n);
  const std::size_t n = (args.single & 1U) != 0 && total != 0 ? 1 : total;
  const FloatOperand<false> x(d, args.in[0]);
  auto* out = static_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(F::apply(d, x.at(d, i), params.values), d, out + i);
  }
  if (i < n) {
    storeSome(d, F::apply(d, x.some(d, i, n - i), params.values), out + i, n - i);
  }
  if (n < total) {
    fillBlock(out, total);
  }
}

template <class F, bool kSingleX, bool kSingleY>
HWY_INLINE void binaryRange(const BlockArgs& args, std::size_t n) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const FloatOperand<kSingleX> x(d, args.in[0]);
  const FloatOperand<kSingleY> y(d, args.in[1]);
  auto* out = static_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(F::apply(d, x.at(d, i), y.at(d, i)), d, out + i);
  }
  if (i < n) {
    storeSome(d, F::apply(d, x.some(d, i, n - i), y.some(d, i, n - i)), out + i, n - i);
  }
}

/// F::apply(d, x, y)
template <class F>
void binaryLoop(const BlockArgs& args) {
  const auto n = static_cast<std::size_t>(args.n);
  if (n == 0) {
    return;
  }
  switch (args.single & 3U) {
    case 0:
      return binaryRange<F, false, false>(args, n);
    case 1:
      return binaryRange<F, true, false>(args, n);
    case 2:
      return binaryRange<F, false, true>(args, n);
    default:
      binaryRange<F, false, false>(args, 1);
      fillBlock(static_cast<float*>(args.out), n);
  }
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
