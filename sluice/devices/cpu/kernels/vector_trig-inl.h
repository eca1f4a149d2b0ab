// Inverse trigonometric and hyperbolic functions on float vectors, built from vector_math-inl.h.
// NaN, infinity and signed zero behave as in the C library. The polynomial is a Chebyshev fit on
// the range named.
//
// Compiled once per instruction set: include it after hwy/highway.h in a foreach_target file.
#if defined(SLUICE_VECTOR_TRIG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_VECTOR_TRIG_INL_H_
#undef SLUICE_VECTOR_TRIG_INL_H_
#else
#define SLUICE_VECTOR_TRIG_INL_H_
#endif

#include <limits>

#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {

/// From here on, x^2 + 1 rounds to x^2.
inline constexpr float kLargeArgument = 1e9F;
inline constexpr float kLn2 = 0.69314718F;

/// atan(x) = base + atan(r). x above tan(3 pi / 8) is rotated by pi / 2, and x above tan(pi / 8) by
/// pi / 4, so that r is in [-tan(pi / 8), tan(pi / 8)].
template <class D, class V>
HWY_INLINE V Atan(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V a = hn::Abs(x);
  const auto large = hn::Gt(a, hn::Set(d, 2.4142136F));
  const auto middle = hn::Gt(a, hn::Set(d, 0.41421357F));
  const V above = hn::IfThenElse(large, hn::Neg(one), hn::Sub(a, one));
  const V below = hn::IfThenElse(large, a, hn::Add(a, one));
  const V r = hn::IfThenElse(middle, hn::Div(above, below), a);
  V base = hn::IfThenElseZero(middle, hn::Set(d, 0.78539816F));
  base = hn::IfThenElse(large, hn::Set(d, 1.57079633F), base);
  const V z = hn::Mul(r, r);
  const V p = polynomial(
      d, z, -0.3333333176F, 0.1999954031F, -0.1426394975F, 0.1074366833F, -0.0645171887F);
  const V tail = hn::MulAdd(hn::Mul(z, r), p, r);
  return hn::CopySign(hn::Add(base, tail), x);
}

template <class D, class V>
HWY_INLINE V Asin(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  return Atan(d, hn::Div(x, hn::Sqrt(hn::Mul(hn::Sub(one, x), hn::Add(one, x)))));
}

template <class D, class V>
HWY_INLINE V Acos(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V half = Atan(d, hn::Sqrt(hn::Div(hn::Sub(one, x), hn::Add(one, x))));
  return hn::Add(half, half);
}

template <class D, class V>
HWY_INLINE V Asinh(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V a = hn::Abs(x);
  const V square = hn::Mul(a, a);
  const V root = hn::Sqrt(hn::Add(square, one));
  const V small = Log1p(d, hn::Add(a, hn::Div(square, hn::Add(root, one))));
  const V large = hn::Add(Log(d, a), hn::Set(d, kLn2));
  return hn::CopySign(hn::IfThenElse(hn::Gt(a, hn::Set(d, kLargeArgument)), large, small), x);
}

template <class D, class V>
HWY_INLINE V Acosh(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V t = hn::Sub(x, one);
  const V root = hn::Sqrt(hn::MulAdd(t, t, hn::Add(t, t)));
  const V small = Log1p(d, hn::Add(t, root));
  const V large = hn::Add(Log(d, x), hn::Set(d, kLn2));
  const V y = hn::IfThenElse(hn::Gt(x, hn::Set(d, kLargeArgument)), large, small);
  return hn::IfThenElse(hn::Lt(x, one), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
}

template <class D, class V>
HWY_INLINE V Atanh(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  const V a = hn::Abs(x);
  const V twice = hn::Add(a, a);
  const V rest = hn::Div(hn::Mul(twice, a), hn::Sub(one, a));
  const V inside = hn::Mul(hn::Set(d, 0.5F), Log1p(d, hn::Add(twice, rest)));
  const V y =
      hn::IfThenElse(hn::Gt(a, one), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), inside);
  return hn::CopySign(y, x);
}

/// e^|x| / 2 as two factors, which overflow only if the result does, and its inverse.
template <class D>
struct HalfExp {
  hn::Vec<D> grown;
  hn::Vec<D> shrunk;  // e^-|x| / 2
};

template <class D, class V>
HWY_INLINE HalfExp<D> halfExp(D d, V x) {
  const V half = hn::Set(d, 0.5F);
  const V root = Exp(d, hn::Mul(hn::Abs(x), half));
  return {hn::Mul(hn::Mul(root, half), root), hn::Div(hn::Div(half, root), root)};
}

template <class D, class V>
HWY_INLINE V Cosh(D d, V x) {
  const HalfExp<D> e = halfExp(d, x);
  return hn::Add(e.grown, e.shrunk);
}

template <class D, class V>
HWY_INLINE V Sinh(D d, V x) {
  const V a = hn::Abs(x);
  const V one = hn::Set(d, 1.0F);
  const HalfExp<D> e = halfExp(d, x);
  const V m = Expm1(d, hn::Min(a, one));
  const V small = hn::Mul(hn::Set(d, 0.5F), hn::Add(m, hn::Div(m, hn::Add(m, one))));
  const V y = hn::IfThenElse(hn::Lt(a, one), small, hn::Sub(e.grown, e.shrunk));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
