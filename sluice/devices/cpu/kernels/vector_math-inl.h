// Elementary functions on float vectors, within 4 units in the last place of the rounded true
// value. NaN, infinity and denormals behave as in the C library. Every lane is computed in the same
// way, so a value never depends on its position. Polynomials are Chebyshev fits on the ranges
// named.
//
// Compiled once per instruction set: include it after hwy/highway.h in a foreach_target file.
#if defined(SLUICE_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_VECTOR_MATH_INL_H_
#undef SLUICE_VECTOR_MATH_INL_H_
#else
#define SLUICE_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <limits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// c0 + c1 x + c2 x^2 ... by Horner's rule.
template <class D, class V>
HWY_INLINE V polynomial(D d, V /*x*/, hn::TFromD<D> c0) {
  return hn::Set(d, c0);
}
template <class D, class V, class... Rest>
HWY_INLINE V polynomial(D d, V x, hn::TFromD<D> c0, Rest... rest) {
  return hn::MulAdd(polynomial(d, x, rest...), x, hn::Set(d, c0));
}

/// x = n ln 2 + r with r in [-ln2/2, ln2/2]; e^r = 1 + tail.
template <class D>
struct ExpParts {
  hn::Vec<hn::RebindToSigned<D>> n;
  hn::Vec<D> tail;
};

template <class D, class V>
HWY_INLINE ExpParts<D> splitExp(D d, V x) {
  const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504F)));
  const V nf = hn::ConvertTo(d, n);
  // The first part of ln 2 has 9 bits, so its product with n is exact.
  V r = hn::NegMulAdd(nf, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(nf, hn::Set(d, -2.12194440e-4F), r);
  const V p = polynomial(d,
                         r,
                         0.5000000014F,
                         0.1666666668F,
                         0.0416664642F,
                         0.008333310845F,
                         0.001393373072F,
                         0.0001989108046F);
  return {n, hn::MulAdd(hn::Mul(r, r), p, r)};
}

/// 2^n for -126 <= n <= 127.
template <class D, class VI>
HWY_INLINE hn::Vec<D> powerOfTwo(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const V clamped = hn::Min(hn::Max(x, hn::Set(d, -104.0F)), hn::Set(d, 89.0F));
  const ExpParts<D> parts = splitExp(d, clamped);
  // Two factors, since 2^n alone may overflow or be denormal.
  const auto half = hn::ShiftRight<1>(parts.n);
  const V y = hn::Add(parts.tail, hn::Set(d, 1.0F));
  const V scaled = hn::Mul(hn::Mul(y, powerOfTwo(d, half)), powerOfTwo(d, hn::Sub(parts.n, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, scaled);
}

template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  const V clamped = hn::Min(hn::Max(x, hn::Set(d, -104.0F)), hn::Set(d, 80.0F));
  const ExpParts<D> parts = splitExp(d, clamped);
  // 2^n (1 + tail) - 1, adding the large part last.
  const auto n = hn::Max(parts.n, hn::Set(hn::RebindToSigned<D>(), -100));
  const V scale = powerOfTwo(d, n);
  const V small = hn::MulAdd(parts.tail, scale, hn::Sub(scale, hn::Set(d, 1.0F)));
  const V y = hn::IfThenElse(hn::Gt(x, hn::Set(d, 80.0F)), Exp(d, x), small);
  // Also keeps -0.
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, hn::Zero(d))), x, y);
}

/// log(x) for positive, finite, normal or denormal x.
template <class D, class V>
HWY_INLINE V logPositive(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0F)), x);
  const auto bits = hn::BitCast(di, normal);
  // The exponent for a mantissa in [sqrt(1/2), sqrt(2)).
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e))), hn::Set(d, 1.0F));
  V ef = hn::ConvertTo(d, e);
  ef = hn::Sub(ef, hn::IfThenElseZero(tiny, hn::Set(d, 23.0F)));
  const V p = polynomial(d,
                         f,
                         0.3333333118F,
                         -0.24999996958F,
                         0.200007157489F,
                         -0.166678023195F,
                         0.142490576457F,
                         -0.124256873315F,
                         0.116854199235F,
                         -0.114797338466F,
                         0.0697161147145F);
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(f2, f), p);
  y = hn::MulAdd(ef, hn::Set(d, -2.12194440e-4F), y);
  y = hn::NegMulAdd(f2, hn::Set(d, 0.5F), y);
  return hn::MulAdd(ef, hn::Set(d, 0.693359375F), hn::Add(f, y));
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  V y = logPositive(d, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, kInf)), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -kInf), y);
  y = hn::IfThenElse(
      hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V Log1p(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V u = hn::Add(x, one);
  // log(u), where u is 1 + x rounded, plus the effect of that rounding. The size of the two
  // summands decides from which of them the rounding error is taken.
  const V errorSmall = hn::Sub(x, hn::Sub(u, one));
  const V errorLarge = hn::Sub(one, hn::Sub(u, x));
  const V error = hn::IfThenElse(hn::Gt(x, one), errorLarge, errorSmall);
  V y = hn::Add(Log(d, u), hn::Div(error, u));
  const auto special =
      hn::Or(hn::Eq(u, hn::Set(d, std::numeric_limits<float>::infinity())), hn::Le(u, hn::Zero(d)));
  y = hn::IfThenElse(special, Log(d, u), y);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, hn::Zero(d))), x, y);
}

template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  const V a = hn::Abs(x);
  const V z = hn::Mul(x, x);
  const V p = polynomial(d,
                         z,
                         -0.333333289441F,
                         0.13332769737F,
                         -0.0538509095785F,
                         0.0209971789991F,
                         -0.00609671416591F);
  const V small = hn::MulAdd(hn::Mul(x, z), p, x);  // loses the sign of -0
  const V e = Exp(d, hn::Add(a, a));
  const V one = hn::Set(d, 1.0F);
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(e, one)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625F)), small, large), x);
}

template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V e = Exp(d, hn::Neg(hn::Abs(x)));
  const V top = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return hn::Div(top, hn::Add(one, e));
}

template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  const V tail = Log1p(d, Exp(d, hn::Neg(hn::Abs(x))));
  return hn::Add(hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), x), tail);
}

/// exp(factor t^2), factor a negative power of two; t is split so that the square of the first part
/// is exact.
template <class D, class V>
HWY_INLINE V gaussian(D d, V t, float factor = -0.5F) {
  const hn::RebindToUnsigned<D> du;
  const V hi = hn::BitCast(d, hn::And(hn::BitCast(du, t), hn::Set(du, 0xfffff000U)));
  const V rest = hn::Mul(hn::Mul(hn::Sub(t, hi), hn::Add(t, hi)), hn::Set(d, factor));
  const V correction = polynomial(d, rest, 1.0F, 1.0F, 0.5F, 0.1666666667F, 0.0416666667F);
  return hn::Mul(Exp(d, hn::Mul(hn::Mul(hi, hi), hn::Set(d, factor))), correction);
}

/// The upper tail of the normal distribution over `bell`: fitted as
/// (1 + t) exp(t^2 / 2) Q(t) in u = (t - 4) / (t + 4), 0 <= t <= 15.
template <class D, class V>
HWY_INLINE V normalTail(D d, V t, V bell) {
  const V clamped = hn::Min(t, hn::Set(d, 15.0F));
  const V four = hn::Set(d, 4.0F);
  const V u = hn::Div(hn::Sub(clamped, four), hn::Add(clamped, four));
  const V p = polynomial(d,
                         u,
                         0.4720532064F,
                         -0.09670346798F,
                         0.01399963659F,
                         0.0286000328F,
                         -0.03219781535F,
                         0.01793944948F,
                         -0.005002140853F,
                         -0.0002999187613F,
                         0.0006908448556F,
                         -6.673718492e-5F,
                         -7.437454417e-5F);
  return hn::Div(hn::Mul(bell, p), hn::Add(clamped, hn::Set(d, 1.0F)));
}

/// The normal distribution function; `bell` is exp(-x^2 / 2).
template <class D, class V>
HWY_INLINE V normalCdf(D d, V x, V bell) {
  const V q = normalTail(d, hn::Abs(x), bell);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), q, hn::Sub(hn::Set(d, 1.0F), q));
}

/// erf(x) for |x| < 0.75.
template <class D, class V>
HWY_INLINE V smallErf(D d, V x) {
  return hn::Mul(x,
                 polynomial(d,
                            hn::Mul(x, x),
                            1.12837916558F,
                            -0.376126194694F,
                            0.112833865384F,
                            -0.0268351145686F,
                            0.00511533211253F,
                            -0.000675647956868F));
}

template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const V small = smallErf(d, x);
  const V t = hn::Mul(hn::Abs(x), hn::Set(d, 1.41421356F));
  const V q = normalTail(d, t, gaussian(d, hn::Min(t, hn::Set(d, 15.0F))));
  const V large = hn::NegMulAdd(hn::Set(d, 2.0F), q, hn::Set(d, 1.0F));
  const V y = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.75F)), small, hn::CopySign(large, x));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// The tail is twice that of the normal distribution at sqrt(2) |x|, over exp(-x^2), which needs
/// |x| itself: the rounding of the product would be multiplied by 2 x^2. From 10.1 on it is 0.
template <class D, class V>
HWY_INLINE V Erfc(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 10.1F));
  const V bell = gaussian(d, a, -1.0F);
  const V tail = normalTail(d, hn::Mul(a, hn::Set(d, 1.41421356F)), hn::Add(bell, bell));
  const V large = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0F), tail), tail);
  const V small = hn::Sub(one, smallErf(d, x));
  const V y = hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.5F)), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// exp(-x^2 / 2); 0 for |x| >= 15.
template <class D, class V>
HWY_INLINE V bellOf(D d, V x) {
  const V t = hn::Abs(x);
  const V bell = gaussian(d, hn::Min(t, hn::Set(d, 15.0F)));
  return hn::IfThenZeroElse(hn::Gt(t, hn::Set(d, 15.0F)), bell);
}

template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  return hn::Mul(x, normalCdf(d, x, bellOf(d, x)));
}

/// Phi(x) + x phi(x).
template <class D, class V>
HWY_INLINE V GeluSlope(D d, V x) {
  const V bell = bellOf(d, x);
  const V density = hn::Mul(bell, hn::Set(d, 0.398942280F));
  const V y = hn::MulAdd(x, density, normalCdf(d, x, bell));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// The argument of the tanh form: sqrt(2 / pi) (x + 0.044715 x^3), doubled.
template <class D, class V>
HWY_INLINE V geluTanhArgument(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715F), hn::Set(d, 1.0F));
  return hn::Mul(hn::Mul(x, cubic), hn::Set(d, 1.59576912F));
}

/// x (1 + tanh(a)) / 2 is x sigmoid(2 a), which does not cancel.
template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  return hn::Mul(x, Sigmoid(d, geluTanhArgument(d, x)));
}

template <class D, class V>
HWY_INLINE V GeluTanhSlope(D d, V x) {
  const V s = Sigmoid(d, geluTanhArgument(d, x));
  const V slope = hn::Mul(hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.134145F), hn::Set(d, 1.0F)),
                          hn::Set(d, 1.59576912F));
  const V rest = hn::Mul(hn::Mul(s, hn::Sub(hn::Set(d, 1.0F), s)), hn::Mul(x, slope));
  return hn::Add(s, rest);
}

/// sin and cos of double vectors for |x| < 2^20, to well below float accuracy. `shift` is 0 for
/// sin and 1 for cos: the number of quarter turns added.
template <class D, class V>
HWY_INLINE V SinQuarter(D d, V x, double shift) {
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 0.63661977236758134308)));
  V r = hn::NegMulAdd(n, hn::Set(d, 1.5707963267341256142), x);
  r = hn::NegMulAdd(n, hn::Set(d, 6.0771004981724496830e-11), r);
  const V z = hn::Mul(r, r);
  const V sinPoly = polynomial(d,
                               z,
                               -0.16666666666663872,
                               0.00833333333107020959,
                               -0.000198412669082247961,
                               2.75559882800214152e-6,
                               -2.48053909457660663e-8);
  const V cosPoly = polynomial(d,
                               z,
                               0.0416666666666646687,
                               -0.00138888888872708974,
                               0.0000248015852047252481,
                               -2.75563678008038823e-7,
                               2.07004250624745108e-9);
  const V sinR = hn::MulAdd(hn::Mul(r, z), sinPoly, r);
  const V half = hn::NegMulAdd(z, hn::Set(d, 0.5), hn::Set(d, 1.0));
  const V cosR = hn::MulAdd(hn::Mul(z, z), cosPoly, half);
  const V turn = hn::Add(n, hn::Set(d, shift));
  const V four = hn::Set(d, 4.0);
  const V quarter = hn::Sub(turn, hn::Mul(hn::Floor(hn::Mul(turn, hn::Set(d, 0.25))), four));
  const auto odd = hn::Or(hn::Eq(quarter, hn::Set(d, 1.0)), hn::Eq(quarter, hn::Set(d, 3.0)));
  const V y = hn::IfThenElse(odd, cosR, sinR);
  return hn::IfThenElse(hn::Ge(quarter, hn::Set(d, 2.0)), hn::Neg(y), y);
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
