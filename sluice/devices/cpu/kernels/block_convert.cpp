// Conversions between element types, and copies. Float16 and bfloat16 round to nearest even by
// integer arithmetic, as sluice/tensor does, so that every bit agrees on every instruction set.
// Processors that convert float16 themselves do so, but for NaN, whose bits they treat otherwise.
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/block_convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/block_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVec = hn::Vec<WordTag>;
using ShortTag = hn::Rebind<std::uint16_t, FloatTag>;
using ShortVec = hn::Vec<ShortTag>;

struct BFloat {
  static HWY_INLINE FloatVec load(FloatTag d, ShortVec bits) {
    return widen(d, hn::PromoteTo(WordTag(), bits));
  }
  static HWY_INLINE ShortVec store(FloatTag d, FloatVec value) {
    return hn::DemoteTo(ShortTag(), hn::BitCast(hn::RebindToSigned<FloatTag>(), narrow(d, value)));
  }
  static HWY_INLINE FloatVec widen(FloatTag d, WordVec bits) {
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
  static HWY_INLINE WordVec narrow(FloatTag /*d*/, FloatVec value) {
    const WordTag du;
    const WordVec x = hn::BitCast(du, value);
    const WordVec high = hn::ShiftRight<16>(x);
    const WordVec odd = hn::And(high, hn::Set(du, 1U));
    const WordVec rounded = hn::ShiftRight<16>(hn::Add(hn::Add(x, hn::Set(du, 0x7fffU)), odd));
    const WordVec quiet = hn::Or(high, hn::Set(du, 0x40U));
    return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, rounded);
  }
};

#if HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define SLUICE_CONVERTS_HALF 1
using HalfTag = hn::Rebind<hwy::float16_t, FloatTag>;
#else
#define SLUICE_CONVERTS_HALF 0
#endif

struct Half {
  static HWY_INLINE FloatVec load(FloatTag d, ShortVec bits) {
#if SLUICE_CONVERTS_HALF
    const FloatVec value = hn::PromoteTo(d, hn::BitCast(HalfTag(), bits));
    if (hn::AllFalse(d, hn::IsNaN(value))) {
      return value;
    }
#endif
    return widen(d, hn::PromoteTo(WordTag(), bits));
  }
  static HWY_INLINE ShortVec store(FloatTag d, FloatVec value) {
#if SLUICE_CONVERTS_HALF
    if (hn::AllFalse(d, hn::IsNaN(value))) {
      return hn::BitCast(ShortTag(), hn::DemoteTo(HalfTag(), value));
    }
#endif
    return hn::DemoteTo(ShortTag(), hn::BitCast(hn::RebindToSigned<FloatTag>(), narrow(d, value)));
  }
  static HWY_INLINE FloatVec widen(FloatTag d, WordVec bits) {
    const WordTag du;
    const hn::RebindToSigned<FloatTag> di;
    const WordVec sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000U)));
    const WordVec rest = hn::And(bits, hn::Set(du, 0x7fffU));
    const WordVec exponent = hn::And(bits, hn::Set(du, 0x7c00U));
    const WordVec shifted = hn::ShiftLeft<13>(rest);
    const WordVec normal = hn::Add(shifted, hn::Set(du, 112U << 23));
    const WordVec special = hn::Or(shifted, hn::Set(du, 0x7f800000U));
    const FloatVec tiny = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, rest)), hn::Set(d, 0x1p-24F));
    WordVec magnitude = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x7c00U)), special, normal);
    magnitude = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), hn::BitCast(du, tiny), magnitude);
    return hn::BitCast(d, hn::Or(magnitude, sign));
  }
  static HWY_INLINE WordVec narrow(FloatTag d, FloatVec value) {
    const WordTag du;
    const WordVec x = hn::BitCast(du, value);
    const WordVec sign = hn::And(hn::ShiftRight<16>(x), hn::Set(du, 0x8000U));
    const FloatVec magnitude = hn::Abs(value);
    const WordVec bits = hn::BitCast(du, magnitude);
    const WordVec odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1U));
    const WordVec rebased = hn::Sub(bits, hn::Set(du, 0x38000000U - 0xfffU));
    const WordVec normal = hn::ShiftRight<13>(hn::Add(rebased, odd));
    const FloatVec shifted = hn::Add(magnitude, hn::Set(d, 0.5F));
    const WordVec tiny = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3f000000U));
    WordVec result =
        hn::IfThenElse(hn::RebindMask(du, hn::Lt(magnitude, hn::Set(d, 0x1p-14F))), tiny, normal);
    const auto large = hn::Ge(magnitude, hn::Set(d, 65520.0F));
    result = hn::IfThenElse(hn::RebindMask(du, large), hn::Set(du, 0x7c00U), result);
    result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Set(du, 0x7e00U), result);
    return hn::Or(result, sign);
  }
};

/// A single operand fills the block.
HWY_INLINE std::size_t computed(const BlockArgs& args) {
  return (args.single & 1U) != 0 && args.n != 0 ? 1 : static_cast<std::size_t>(args.n);
}

template <class Format>
void loadLoop(const BlockArgs& args) {
  const FloatTag d;
  const ShortTag ds;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t n = computed(args);
  const auto* in = static_cast<const std::uint16_t*>(args.in[0]);
  auto* out = static_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(Format::load(d, hn::LoadU(ds, in + i)), d, out + i);
  }
  if (i < n) {
    HWY_ALIGN std::uint16_t buffer[kMaxFloatLanes] = {};
    std::memcpy(buffer, in + i, (n - i) * sizeof(std::uint16_t));
    storeSome(d, Format::load(d, hn::Load(ds, buffer)), out + i, n - i);
  }
  if (n < static_cast<std::size_t>(args.n)) {
    fillBlock(out, static_cast<std::size_t>(args.n));
  }
}

template <class Format>
void storeLoop(const BlockArgs& args) {
  const FloatTag d;
  const ShortTag ds;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t n = computed(args);
  const auto* in = static_cast<const float*>(args.in[0]);
  auto* out = static_cast<std::uint16_t*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(Format::store(d, hn::LoadU(d, in + i)), ds, out + i);
  }
  if (i < n) {
    HWY_ALIGN std::uint16_t buffer[kMaxFloatLanes];
    hn::Store(Format::store(d, loadSome(d, in + i, n - i)), ds, buffer);
    std::memcpy(out + i, buffer, (n - i) * sizeof(std::uint16_t));
  }
  if (n < static_cast<std::size_t>(args.n)) {
    fillBlock(out, static_cast<std::size_t>(args.n));
  }
}

template <class Format>
struct RoundOp {
  static HWY_INLINE FloatVec apply(FloatTag d, FloatVec x, const double* /*params*/) {
    return Format::widen(d, Format::narrow(d, x));
  }
};

#undef SLUICE_CONVERTS_HALF

}  // namespace

BlockFunction convertRow(std::string_view what, DType dtype) {
  const bool half = dtype == DType::F16;
  if (what == "load") {
    return half ? loadLoop<Half> : loadLoop<BFloat>;
  }
  if (what == "store") {
    return half ? storeLoop<Half> : storeLoop<BFloat>;
  }
  return half ? unaryLoop<RoundOp<Half>> : unaryLoop<RoundOp<BFloat>>;
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <limits>
#include <type_traits>

#include "sluice/base/error.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(convertRow);

/// As HostTensor's cast: floats to integers truncate and saturate, NaN becomes 0.
template <class To, class From>
To convertElement(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    const auto wide = static_cast<double>(value);
    if (wide != wide) {
      return 0;
    }
    if (wide <= static_cast<double>(std::numeric_limits<To>::lowest())) {
      return std::numeric_limits<To>::lowest();
    }
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<To>::max());
    return wide >= kHigh ? std::numeric_limits<To>::max() : static_cast<To>(wide);
  } else if constexpr (std::is_integral_v<From> && std::is_floating_point_v<To>) {
    return static_cast<To>(static_cast<double>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
void castBlock(const BlockArgs& args) {
  const auto* in = static_cast<const From*>(args.in[0]);
  auto* out = static_cast<To*>(args.out);
  const std::int64_t step = (args.single & 1U) != 0 ? 0 : 1;
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = convertElement<To>(in[i * step]);
  }
}

template <class T>
void copyBlock(const BlockArgs& args) {
  const auto* in = static_cast<const T*>(args.in[0]);
  auto* out = static_cast<T*>(args.out);
  if ((args.single & 1U) == 0) {
    std::memmove(out, in, static_cast<std::size_t>(args.n) * sizeof(T));
    return;
  }
  const T value = args.n > 0 ? in[0] : T{};
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = value;
  }
}

}  // namespace

BlockFunction castFunction(DType from, DType to) {
  return dispatch(from, [&]<class From>(From) {
    return dispatch(to, [&]<class To>(To) -> BlockFunction {
      if constexpr (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>) {
        return castBlock<From, To>;
      }
      return nullptr;
    });
  });
}

BlockFunction loadFunction(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(convertRow)("load", dtype);
}
BlockFunction storeFunction(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(convertRow)("store", dtype);
}
BlockFunction roundFunction(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(convertRow)("round", dtype);
}

BlockFunction copyFunction(std::size_t elementBytes) {
  switch (elementBytes) {
    case 1:
      return copyBlock<std::uint8_t>;
    case 2:
      return copyBlock<std::uint16_t>;
    case 4:
      return copyBlock<std::uint32_t>;
    default:
      return copyBlock<std::uint64_t>;
  }
}

}  // namespace sluice::devices::cpu
#endif
