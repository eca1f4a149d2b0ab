// Block functions on float32 that are exact or correctly rounded: arithmetic, comparisons, choices.
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/block_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/block_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

#define SLUICE_UNARY(Name, expression)                                   \
  struct Name {                                                          \
    static HWY_INLINE FloatVec apply([[maybe_unused]] FloatTag d,        \
                                     FloatVec x,                         \
                                     [[maybe_unused]] const double* p) { \
      return expression;                                                 \
    }                                                                    \
  };
#define SLUICE_BINARY(Name, expression)                                                     \
  struct Name {                                                                             \
    static HWY_INLINE FloatVec apply([[maybe_unused]] FloatTag d, FloatVec x, FloatVec y) { \
      return expression;                                                                    \
    }                                                                                       \
  };

HWY_INLINE FloatVec param(FloatTag d, const double* p, int i) {
  return hn::Set(d, static_cast<float>(p[i]));
}

SLUICE_BINARY(AddOp, hn::Add(x, y))
SLUICE_BINARY(SubOp, hn::Sub(x, y))
SLUICE_BINARY(MulOp, hn::Mul(x, y))
SLUICE_BINARY(DivOp, hn::Div(x, y))
// NaN wins; of equal operands (the two zeros) the first.
SLUICE_BINARY(MaximumOp,
              hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Not(hn::Or(hn::Lt(x, y), hn::IsNaN(y)))),
                             x,
                             y))
SLUICE_BINARY(MinimumOp,
              hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Not(hn::Or(hn::Lt(y, x), hn::IsNaN(y)))),
                             x,
                             y))
SLUICE_BINARY(ReluGradOp, hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), y))

SLUICE_UNARY(AbsOp, hn::Abs(x))
SLUICE_UNARY(NegOp, hn::Neg(x))
SLUICE_UNARY(SquareOp, hn::Mul(x, x))
SLUICE_UNARY(SqrtOp, hn::Sqrt(x))
SLUICE_UNARY(ReciprocalOp, hn::Div(hn::Set(d, 1.0F), x))
SLUICE_UNARY(RsqrtOp, hn::Div(hn::Set(d, 1.0F), hn::Sqrt(x)))
SLUICE_UNARY(FloorOp, hn::Floor(x))
SLUICE_UNARY(CeilOp, hn::Ceil(x))
SLUICE_UNARY(RoundOp, hn::Round(x))
SLUICE_UNARY(ReluOp, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x))
SLUICE_UNARY(LeakyReluOp, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(x, param(d, p, 0))))
SLUICE_UNARY(SignOp,
             hn::IfThenElse(hn::IsNaN(x),
                            x,
                            hn::IfThenElse(hn::Eq(x, hn::Zero(d)),
                                           hn::Zero(d),
                                           hn::CopySign(hn::Set(d, 1.0F), x))))
SLUICE_UNARY(ClampOp,
             hn::IfThenElse(hn::Lt(x, param(d, p, 0)),
                            param(d, p, 0),
                            hn::IfThenElse(hn::Lt(param(d, p, 1), x), param(d, p, 1), x)))

/// F of operands that are multiplied by one number each, x first: block, block, scales.
template <class F, bool kScaleX, bool kScaleY>
void scaledLoop(const BlockArgs& args) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(args.n);
  const FloatOperand<false> x(d, args.in[0]);
  const FloatOperand<false> y(d, args.in[1]);
  const FloatVec scaleX = FloatOperand<true>(d, args.in[2]).value;
  const FloatVec scaleY = FloatOperand<true>(d, args.in[kScaleX && kScaleY ? 3 : 2]).value;
  auto* out = static_cast<float*>(args.out);
  const auto apply = [&](FloatVec a, FloatVec b) {
    return F::apply(d, kScaleX ? hn::Mul(a, scaleX) : a, kScaleY ? hn::Mul(b, scaleY) : b);
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(apply(x.at(d, i), y.at(d, i)), d, out + i);
  }
  if (i < n) {
    storeSome(d, apply(x.some(d, i, n - i), y.some(d, i, n - i)), out + i, n - i);
  }
}

/// F of an operand that is multiplied by one number: block, scale.
template <class F>
void scaledUnaryLoop(const BlockArgs& args) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(args.n);
  const FloatOperand<false> x(d, args.in[0]);
  const FloatVec scale = FloatOperand<true>(d, args.in[1]).value;
  const Params params(args);
  auto* out = static_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(F::apply(d, hn::Mul(x.at(d, i), scale), params.values), d, out + i);
  }
  if (i < n) {
    storeSome(d, F::apply(d, hn::Mul(x.some(d, i, n - i), scale), params.values), out + i, n - i);
  }
}

/// F of the sum of two blocks.
template <class F>
void sumLoop(const BlockArgs& args) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(args.n);
  const FloatOperand<false> x(d, args.in[0]);
  const FloatOperand<false> y(d, args.in[1]);
  const Params params(args);
  auto* out = static_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(F::apply(d, hn::Add(x.at(d, i), y.at(d, i)), params.values), d, out + i);
  }
  if (i < n) {
    const FloatVec sum = hn::Add(x.some(d, i, n - i), y.some(d, i, n - i));
    storeSome(d, F::apply(d, sum, params.values), out + i, n - i);
  }
}

struct IdentityOp {
  static HWY_INLINE FloatVec apply(FloatTag /*d*/, FloatVec x, const double* /*p*/) { return x; }
};

/// F of (x - y) * z + w, every step rounded: what batch norm does with its running statistics.
template <class F>
void normLoop(const BlockArgs& args) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto n = static_cast<std::size_t>(args.n);
  const FloatOperand<false> x(d, args.in[0]);
  const FloatOperand<false> y(d, args.in[1]);
  const FloatOperand<false> z(d, args.in[2]);
  const FloatOperand<false> w(d, args.in[3]);
  const Params params(args);
  auto* out = static_cast<float*>(args.out);
  const auto apply = [&](FloatVec a, FloatVec b, FloatVec c, FloatVec e) {
    return F::apply(d, hn::Add(hn::Mul(hn::Sub(a, b), c), e), params.values);
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(apply(x.at(d, i), y.at(d, i), z.at(d, i), w.at(d, i)), d, out + i);
  }
  if (const std::size_t rest = n - i; rest != 0) {
    storeSome(d,
              apply(x.some(d, i, rest), y.some(d, i, rest), z.some(d, i, rest), w.some(d, i, rest)),
              out + i,
              rest);
  }
}

using Mask = hn::Mask<FloatTag>;
using ByteTag = hn::Rebind<std::uint8_t, FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;

#define SLUICE_COMPARE(Name, expression)                                                         \
  struct Name {                                                                                  \
    static HWY_INLINE Mask apply(FloatVec x, [[maybe_unused]] FloatVec y) { return expression; } \
  };
SLUICE_COMPARE(EqualOp, hn::Eq(x, y))
SLUICE_COMPARE(NotEqualOp, hn::Not(hn::Eq(x, y)))  // hn::Ne is false for NaN here
SLUICE_COMPARE(LessOp, hn::Lt(x, y))
SLUICE_COMPARE(LessEqualOp, hn::Le(x, y))
SLUICE_COMPARE(GreaterOp, hn::Gt(x, y))
SLUICE_COMPARE(GreaterEqualOp, hn::Ge(x, y))
SLUICE_COMPARE(IsNanOp, hn::IsNaN(x))

HWY_INLINE hn::Vec<ByteTag> toBytes(FloatTag d, Mask mask) {
  const IntTag di;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, 1));
  static_cast<void>(d);
  return hn::DemoteTo(ByteTag(), ones);
}

template <class F, bool kSingleX, bool kSingleY>
HWY_INLINE void compareRange(const BlockArgs& args, std::size_t n) {
  const FloatTag d;
  const ByteTag db;
  const std::size_t lanes = hn::Lanes(d);
  const FloatOperand<kSingleX> x(d, args.in[0]);
  const FloatOperand<kSingleY> y(d, args.in[1]);
  auto* out = static_cast<std::uint8_t*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(toBytes(d, F::apply(x.at(d, i), y.at(d, i))), db, out + i);
  }
  if (i < n) {
    HWY_ALIGN std::uint8_t buffer[kMaxFloatLanes];
    hn::Store(toBytes(d, F::apply(x.some(d, i, n - i), y.some(d, i, n - i))), db, buffer);
    std::memcpy(out + i, buffer, n - i);
  }
}

template <class F>
void compareLoop(const BlockArgs& args) {
  const auto n = static_cast<std::size_t>(args.n);
  switch (n == 0 ? 4U : args.single & 3U) {
    case 0:
      return compareRange<F, false, false>(args, n);
    case 1:
      return compareRange<F, true, false>(args, n);
    case 2:
      return compareRange<F, false, true>(args, n);
    case 3:
      compareRange<F, false, false>(args, 1);
      return fillBlock(static_cast<std::uint8_t*>(args.out), n);
    default:
      return;
  }
}

void isNanLoop(const BlockArgs& args) {
  BlockArgs twice = args;
  twice.in[1] = args.in[0];
  twice.single = (args.single & 1U) != 0 ? 3U : 0U;
  compareLoop<IsNanOp>(twice);
}

HWY_INLINE FloatVec choose(FloatTag d, const std::uint8_t* condition, FloatVec x, FloatVec y) {
  const IntTag di;
  const auto wide = hn::PromoteTo(di, hn::LoadU(ByteTag(), condition));
  return hn::IfThenElse(hn::RebindMask(d, hn::Ne(wide, hn::Zero(di))), x, y);
}

template <bool kSingleX, bool kSingleY>
HWY_INLINE void whereRange(const BlockArgs& args, std::size_t n) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto* condition = static_cast<const std::uint8_t*>(args.in[0]);
  const FloatOperand<kSingleX> x(d, args.in[1]);
  const FloatOperand<kSingleY> y(d, args.in[2]);
  auto* out = static_cast<float*>(args.out);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(choose(d, condition + i, x.at(d, i), y.at(d, i)), d, out + i);
  }
  if (i < n) {
    HWY_ALIGN std::uint8_t bytes[kMaxFloatLanes] = {};
    std::memcpy(bytes, condition + i, n - i);
    storeSome(d, choose(d, bytes, x.some(d, i, n - i), y.some(d, i, n - i)), out + i, n - i);
  }
}

/// A single condition takes one operand whole.
void whereSingle(const BlockArgs& args) {
  const std::size_t from = *static_cast<const std::uint8_t*>(args.in[0]) != 0 ? 1 : 2;
  const auto* source = static_cast<const float*>(args.in[from]);
  auto* out = static_cast<float*>(args.out);
  const bool single = ((args.single >> from) & 1U) != 0;
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = source[single ? 0 : i];
  }
}

void whereLoop(const BlockArgs& args) {
  const auto n = static_cast<std::size_t>(args.n);
  if (n == 0) {
    return;
  }
  if ((args.single & 1U) != 0) {
    return whereSingle(args);
  }
  switch (args.single >> 1) {
    case 0:
      return whereRange<false, false>(args, n);
    case 1:
      return whereRange<true, false>(args, n);
    case 2:
      return whereRange<false, true>(args, n);
    default:
      return whereRange<true, true>(args, n);
  }
}

constexpr NamedBlock kRows[] = {
    {"abs", unaryLoop<AbsOp>},
    {"add", binaryLoop<AddOp>},
    {"add:norm", normLoop<IdentityOp>},
    {"add:x", scaledLoop<AddOp, true, false>},
    {"add:xy", scaledLoop<AddOp, true, true>},
    {"add:y", scaledLoop<AddOp, false, true>},
    {"ceil", unaryLoop<CeilOp>},
    {"clamp", unaryLoop<ClampOp>},
    {"clamp:norm", normLoop<ClampOp>},
    {"clamp:sum", sumLoop<ClampOp>},
    {"div", binaryLoop<DivOp>},
    {"div:x", scaledLoop<DivOp, true, false>},
    {"div:xy", scaledLoop<DivOp, true, true>},
    {"div:y", scaledLoop<DivOp, false, true>},
    {"equal", compareLoop<EqualOp>},
    {"floor", unaryLoop<FloorOp>},
    {"greater", compareLoop<GreaterOp>},
    {"greater_equal", compareLoop<GreaterEqualOp>},
    {"is_nan", isNanLoop},
    {"leaky_relu", unaryLoop<LeakyReluOp>},
    {"less", compareLoop<LessOp>},
    {"less_equal", compareLoop<LessEqualOp>},
    {"maximum", binaryLoop<MaximumOp>},
    {"minimum", binaryLoop<MinimumOp>},
    {"mul", binaryLoop<MulOp>},
    {"neg", unaryLoop<NegOp>},
    {"not_equal", compareLoop<NotEqualOp>},
    {"reciprocal", unaryLoop<ReciprocalOp>},
    {"relu", unaryLoop<ReluOp>},
    {"relu:norm", normLoop<ReluOp>},
    {"relu:sum", sumLoop<ReluOp>},
    {"relu_grad", binaryLoop<ReluGradOp>},
    {"round", unaryLoop<RoundOp>},
    {"rsqrt", unaryLoop<RsqrtOp>},
    {"sign", unaryLoop<SignOp>},
    {"sqrt", unaryLoop<SqrtOp>},
    {"sqrt:x", scaledUnaryLoop<SqrtOp>},
    {"square", unaryLoop<SquareOp>},
    {"sub", binaryLoop<SubOp>},
    {"sub:x", scaledLoop<SubOp, true, false>},
    {"sub:xy", scaledLoop<SubOp, true, true>},
    {"sub:y", scaledLoop<SubOp, false, true>},
    {"where", whereLoop},
};

}  // namespace

BlockFunction f32Row(std::string_view op) {
  return findRow(kRows, op);
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
HWY_EXPORT(f32Row);

BlockFunction findF32Function(std::string_view op) {
  return HWY_DYNAMIC_DISPATCH(f32Row)(op);
}

}  // namespace sluice::devices::cpu
#endif
