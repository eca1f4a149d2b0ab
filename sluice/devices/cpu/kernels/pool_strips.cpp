#include "sluice/devices/cpu/kernels/pool_strips.h"

#include <algorithm>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/pool_strips.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Runs f on whole vectors, then on smaller ones and lane by lane; f takes a tag and the first
/// lane.
template <class F>
HWY_INLINE void forLanes(std::int64_t lanes, F f) {
  const hn::ScalableTag<float> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= lanes; i += step) {
    f(d, i);
  }
  const hn::CappedTag<float, 4> few;
  const auto small = static_cast<std::int64_t>(hn::Lanes(few));
  for (; i + small <= lanes; i += small) {
    f(few, i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < lanes; ++i) {
    f(one, i);
  }
}

/// How many windows can be computed in whole vectors only: the lanes beyond a window's last one are
/// those of the next windows, which come later and write them again. The last windows have none.
template <class D>
HWY_INLINE std::int64_t wideWindows(D d, const PoolStrip& strip) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t rest = strip.lanes % step;
  if (rest == 0 || rest == 4) {
    return 0;  // as quick without
  }
  const std::int64_t without = (step - rest + strip.lanes - 1) / strip.lanes;
  return std::max<std::int64_t>(strip.windows - without, 0);
}

/// f takes a tag, the input's offset and the result's. The first `wide` windows take whole vectors.
template <class F>
HWY_INLINE void forWindows(const PoolStrip& strip, std::int64_t wide, F f) {
  const hn::ScalableTag<float> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t from = strip.start;
  std::int64_t to = 0;
  for (std::int64_t w = 0; w < wide; ++w, from += strip.step, to += strip.lanes) {
    for (std::int64_t i = 0; i < strip.lanes; i += step) {
      f(d, from + i, to + i);
    }
  }
  for (std::int64_t w = wide; w < strip.windows; ++w, from += strip.step, to += strip.lanes) {
    forLanes(strip.lanes, [&](auto tag, std::int64_t i) HWY_ATTR {
      f(tag, from + i * strip.inputStride, to + i);
    });
  }
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from, std::int64_t stride) {
  if (stride == 1) {
    return hn::LoadU(d, from);
  }
  const hn::RebindToSigned<D> di;
  return hn::GatherIndex(
      d, from, hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<std::int32_t>(stride))));
}

template <class D, class Index>
HWY_INLINE void storeIndex(D /*d*/, hn::Vec<D> value, Index* to) {
  if constexpr (sizeof(Index) == 1) {
    const hn::Rebind<std::uint8_t, D> du;
    hn::StoreU(hn::DemoteTo(du, value), du, to);
  } else {
    hn::StoreU(value, D(), to);
  }
}

template <class D, class Index>
HWY_INLINE hn::Vec<D> loadIndex(D d, const Index* from) {
  if constexpr (sizeof(Index) == 1) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::uint8_t, D>(), from));
  } else {
    return hn::LoadU(d, from);
  }
}

/// kTaps: how many there are, 0 if that is not known here.
template <std::size_t kTaps, class Index>
void maxPoolTaps(const PoolStrip& strip, const float* in, float* out, Index* indices) {
  const std::size_t count = kTaps == 0 ? strip.taps.size() : kTaps;
  const PoolTap* taps = strip.taps.data();
  const std::int64_t stride = kTaps == 0 ? strip.inputStride : 1;
  const std::int64_t wide = wideWindows(hn::ScalableTag<float>(), strip);
  forWindows(strip, wide, [&](auto d, std::int64_t from, std::int64_t to) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto index = hn::Zero(di);
    if (count != 0) {
      best = load(d, in + (from + taps[0].offset), stride);
      index = hn::Set(di, taps[0].position);
    }
    for (std::size_t t = 1; t < count; ++t) {
      const auto value = load(d, in + (from + taps[t].offset), stride);
      // What is larger or NaN wins, unless a NaN has won before.
      const auto keeps = hn::Or(hn::IsNaN(best), hn::Le(value, best));
      best = hn::IfThenElse(keeps, best, value);
      index = hn::IfThenElse(hn::RebindMask(di, keeps), index, hn::Set(di, taps[t].position));
    }
    hn::StoreU(best, d, out + to);
    storeIndex(di, index, indices + to);
  });
}

template <class Index>
void maxPool(const PoolStrip& strip, const float* in, float* out, Index* indices) {
  if (strip.taps.size() == 4 && strip.inputStride == 1) {
    maxPoolTaps<4>(strip, in, out, indices);
  } else if (strip.taps.size() == 9 && strip.inputStride == 1) {
    maxPoolTaps<9>(strip, in, out, indices);
  } else {
    maxPoolTaps<0>(strip, in, out, indices);
  }
}

void avgPool(const PoolStrip& strip, const float* in, float divisor, float* out) {
  const std::int64_t wide = wideWindows(hn::ScalableTag<float>(), strip);
  forWindows(strip, wide, [&](auto d, std::int64_t from, std::int64_t to) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (const PoolTap& tap : strip.taps) {
      sum = hn::Add(sum, load(d, in + (from + tap.offset), strip.inputStride));
    }
    hn::StoreU(hn::Div(sum, hn::Set(d, divisor)), d, out + to);
  });
}

template <bool kReplace, class Index>
void maxPoolGradTaps(const PoolStrip& strip, const Index* indices, const float* dy, float* dx) {
  const hn::ScalableTag<float> whole;
  // With several vectors per window the lanes beyond would be those of taps written before.
  const bool oneVector = strip.lanes <= static_cast<std::int64_t>(hn::Lanes(whole));
  const std::int64_t wide = kReplace && oneVector ? wideWindows(whole, strip) : 0;
  forWindows(strip, wide, [&](auto d, std::int64_t to, std::int64_t from) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto index = loadIndex(di, indices + from);
    const auto grad = hn::LoadU(d, dy + from);
    for (const PoolTap& tap : strip.taps) {
      float* target = dx + (to + tap.offset);
      const auto won = hn::RebindMask(d, hn::Eq(index, hn::Set(di, tap.position)));
      const auto before = kReplace ? hn::Zero(d) : hn::LoadU(d, target);
      hn::StoreU(hn::Add(before, hn::IfThenElseZero(won, grad)), d, target);
    }
  });
}

template <class Index>
void maxPoolGrad(
    const PoolStrip& strip, const Index* indices, const float* dy, float* dx, bool replace) {
  if (replace) {
    maxPoolGradTaps<true>(strip, indices, dy, dx);
  } else {
    maxPoolGradTaps<false>(strip, indices, dy, dx);
  }
}

void avgPoolGrad(const PoolStrip& strip, const float* dy, float divisor, float* dx) {
  forWindows(strip, 0, [&](auto d, std::int64_t to, std::int64_t from) HWY_ATTR {
    const auto part = hn::Div(hn::LoadU(d, dy + from), hn::Set(d, divisor));
    for (const PoolTap& tap : strip.taps) {
      float* target = dx + (to + tap.offset);
      hn::StoreU(hn::Add(hn::LoadU(d, target), part), d, target);
    }
  });
}

void maxPool8(const PoolStrip& s, const float* in, float* out, std::uint8_t* indices) {
  maxPool(s, in, out, indices);
}
void maxPool32(const PoolStrip& s, const float* in, float* out, std::int32_t* indices) {
  maxPool(s, in, out, indices);
}
void maxPoolGrad8(
    const PoolStrip& s, const std::uint8_t* indices, const float* dy, float* dx, bool replace) {
  maxPoolGrad(s, indices, dy, dx, replace);
}
void maxPoolGrad32(
    const PoolStrip& s, const std::int32_t* indices, const float* dy, float* dx, bool replace) {
  maxPoolGrad(s, indices, dy, dx, replace);
}

}  // namespace
}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(avgPool);
HWY_EXPORT(avgPoolGrad);
HWY_EXPORT(maxPool8);
HWY_EXPORT(maxPool32);
HWY_EXPORT(maxPoolGrad8);
HWY_EXPORT(maxPoolGrad32);

}  // namespace

template <>
void maxPoolStrip(const PoolStrip& strip, const float* in, float* out, std::uint8_t* indices) {
  HWY_DYNAMIC_DISPATCH(maxPool8)(strip, in, out, indices);
}
template <>
void maxPoolStrip(const PoolStrip& strip, const float* in, float* out, std::int32_t* indices) {
  HWY_DYNAMIC_DISPATCH(maxPool32)(strip, in, out, indices);
}

void avgPoolStrip(const PoolStrip& strip, const float* in, float divisor, float* out) {
  HWY_DYNAMIC_DISPATCH(avgPool)(strip, in, divisor, out);
}

namespace {

/// Neighbouring lanes may share elements: the last tap of a lane is an earlier one of the next, so
/// taps go backwards to add the windows in ascending order.
template <class F>
void scatter(const PoolStrip& strip, float* dx, F value) {
  for (std::size_t t = strip.taps.size(); t-- > 0;) {
    const PoolTap& tap = strip.taps[t];
    for (std::int64_t i = 0; i < strip.lanes; ++i) {
      dx[strip.start + i * strip.inputStride + tap.offset] += value(i, tap.position);
    }
  }
}

template <class Index>
void scatterWinners(const PoolStrip& strip, const Index* indices, const float* dy, float* dx) {
  scatter(strip, dx, [&](std::int64_t i, std::int32_t position) {
    return static_cast<std::int32_t>(indices[i]) == position ? dy[i] : 0.0F;
  });
}

}  // namespace

template <>
void maxPoolGradStrip(
    const PoolStrip& strip, const std::uint8_t* indices, const float* dy, float* dx, bool replace) {
  if (strip.separate) {
    return HWY_DYNAMIC_DISPATCH(maxPoolGrad8)(strip, indices, dy, dx, replace);
  }
  SLUICE_CHECK(!replace, "lanes that may share elements are added");
  scatterWinners(strip, indices, dy, dx);
}
template <>
void maxPoolGradStrip(
    const PoolStrip& strip, const std::int32_t* indices, const float* dy, float* dx, bool replace) {
  if (strip.separate) {
    return HWY_DYNAMIC_DISPATCH(maxPoolGrad32)(strip, indices, dy, dx, replace);
  }
  SLUICE_CHECK(!replace, "lanes that may share elements are added");
  scatterWinners(strip, indices, dy, dx);
}

void avgPoolGradStrip(const PoolStrip& strip, const float* dy, float divisor, float* dx) {
  if (strip.separate) {
    return HWY_DYNAMIC_DISPATCH(avgPoolGrad)(strip, dy, divisor, dx);
  }
  scatter(strip, dx, [&](std::int64_t i, std::int32_t) { return dy[i] / divisor; });
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
