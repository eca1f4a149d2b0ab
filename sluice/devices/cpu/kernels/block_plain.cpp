// Block functions of float64, the integers and bool, by plain loops: computed in 64 bits and
// rounded or cut to the type, as the reference kernels do.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "sluice/devices/cpu/kernels/blocks.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"

namespace sluice::devices::cpu {
namespace {

using ops::narrow;
using ops::Wide;
using ops::widen;

template <class T>
struct PlainOperand {
  const T* data;
  std::int64_t step;

  PlainOperand(const BlockArgs& args, std::size_t i)
      : data(static_cast<const T*>(args.in[i])), step(((args.single >> i) & 1U) != 0 ? 0 : 1) {}
  T operator[](std::int64_t i) const { return data[i * step]; }
};

template <class T, class Out, class F>
void plainUnary(const BlockArgs& args) {
  const PlainOperand<T> x(args, 0);
  auto* out = static_cast<Out*>(args.out);
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = narrow<Out>(F{}(widen(x[i]), args.params));
  }
}

template <class T, class Out, class F>
void plainBinary(const BlockArgs& args) {
  const PlainOperand<T> x(args, 0);
  const PlainOperand<T> y(args, 1);
  auto* out = static_cast<Out*>(args.out);
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = narrow<Out>(F{}(widen(x[i]), widen(y[i])));
  }
}

template <class T>
void plainWhere(const BlockArgs& args) {
  const PlainOperand<bool> condition(args, 0);
  const PlainOperand<T> x(args, 1);
  const PlainOperand<T> y(args, 2);
  auto* out = static_cast<T*>(args.out);
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = condition[i] ? x[i] : y[i];
  }
}

template <class T, class Out = T, class F>
constexpr NamedBlock unary(std::string_view op, F /*f*/) {
  return {op, plainUnary<T, Out, F>};
}
template <class T, class Out = T, class F>
constexpr NamedBlock binary(std::string_view op, F /*f*/) {
  return {op, plainBinary<T, Out, F>};
}

template <class W>
bool isNan(W x) {
  return x != x;
}

template <class T>
BlockFunction numberFunction(std::string_view op) {
  using W = Wide<T>;
  static constexpr NamedBlock kRows[] = {
      unary<T>("abs",
               [](W x, const double*) {
                 if constexpr (std::is_floating_point_v<W>) {
                   return std::fabs(x);
                 } else {
                   return x < W{} ? ops::wrappedNegative(x) : x;
                 }
               }),
      binary<T>("add", [](W x, W y) { return ops::wrappedSum(x, y); }),
      unary<T>("clamp",
               [](W x, const double* p) {
                 const auto low = static_cast<W>(p[0]);
                 const auto high = static_cast<W>(p[1]);
                 return x < low ? low : (high < x ? high : x);
               }),
      binary<T>("div", [](W x, W y) { return ops::wrappedQuotient(x, y); }),
      binary<T>("maximum", [](W x, W y) { return isNan(x) || !(x < y || isNan(y)) ? x : y; }),
      binary<T>("minimum", [](W x, W y) { return isNan(x) || !(y < x || isNan(y)) ? x : y; }),
      binary<T>("mod", [](W x, W y) { return ops::flooredRemainder(x, y); }),
      binary<T>("mod:fmod", [](W x, W y) { return ops::truncatedRemainder(x, y); }),
      binary<T>("mul", [](W x, W y) { return ops::wrappedProduct(x, y); }),
      unary<T>("neg", [](W x, const double*) { return ops::wrappedNegative(x); }),
      unary<T>(
          "sign",
          [](W x, const double*) { return isNan(x) ? x : static_cast<W>((x > W{}) - (x < W{})); }),
      unary<T>("square", [](W x, const double*) { return ops::wrappedProduct(x, x); }),
      binary<T>("sub", [](W x, W y) { return ops::wrappedDifference(x, y); }),
      binary<T, bool>("greater", [](W x, W y) { return x > y; }),
      binary<T, bool>("greater_equal", [](W x, W y) { return x >= y; }),
      binary<T, bool>("less", [](W x, W y) { return x < y; }),
      binary<T, bool>("less_equal", [](W x, W y) { return x <= y; }),
  };
  return findRow(kRows, op);
}

template <class T>
BlockFunction integerFunction(std::string_view op) {
  using W = Wide<T>;
  static constexpr NamedBlock kRows[] = {
      binary<T>("bit_shift:LEFT", [](W x, W y) { return ops::shiftedLeft(x, y); }),
      binary<T>("bit_shift:RIGHT", [](W x, W y) { return ops::shiftedRight(x, y); }),
      binary<T>("bitwise_and", [](W x, W y) { return static_cast<W>(x & y); }),
      unary<T>("bitwise_not", [](W x, const double*) { return static_cast<W>(~x); }),
      binary<T>("bitwise_or", [](W x, W y) { return static_cast<W>(x | y); }),
      binary<T>("bitwise_xor", [](W x, W y) { return static_cast<W>(x ^ y); }),
  };
  return findRow(kRows, op);
}

template <class T>
BlockFunction anyFunction(std::string_view op) {
  using W = Wide<T>;
  static constexpr NamedBlock kRows[] = {
      binary<T, bool>("equal", [](W x, W y) { return x == y; }),
      binary<T, bool>("not_equal", [](W x, W y) { return x != y; }),
      {"where", plainWhere<T>},
  };
  return findRow(kRows, op);
}

BlockFunction boolFunction(std::string_view op) {
  static constexpr NamedBlock kRows[] = {
      binary<bool>("logical_and", [](bool x, bool y) { return x && y; }),
      unary<bool>("logical_not", [](bool x, const double*) { return !x; }),
      binary<bool>("logical_or", [](bool x, bool y) { return x || y; }),
      binary<bool>("logical_xor", [](bool x, bool y) { return x != y; }),
  };
  return findRow(kRows, op);
}

constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

double geluTanh(double x) {
  return std::tanh(kGeluScale * (x + 0.044715 * x * x * x));
}
double geluSlope(double x) {
  const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return 0.5 * (1.0 + std::erf(x / std::numbers::sqrt2)) + x * density;
}
double geluTanhSlope(double x) {
  const double t = geluTanh(x);
  const double inner = kGeluScale * (1.0 + 3.0 * 0.044715 * x * x);
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
}

BlockFunction doubleMath(std::string_view op) {
  using D = double;
  static constexpr NamedBlock kRows[] = {
      unary<D>("acos", [](D x, const D*) { return std::acos(x); }),
      unary<D>("acosh", [](D x, const D*) { return std::acosh(x); }),
      unary<D>("asin", [](D x, const D*) { return std::asin(x); }),
      unary<D>("asinh", [](D x, const D*) { return std::asinh(x); }),
      unary<D>("atan", [](D x, const D*) { return std::atan(x); }),
      binary<D>("atan2", [](D y, D x) { return std::atan2(y, x); }),
      unary<D>("atanh", [](D x, const D*) { return std::atanh(x); }),
      unary<D>("cos", [](D x, const D*) { return std::cos(x); }),
      unary<D>("cosh", [](D x, const D*) { return std::cosh(x); }),
      unary<D>("elu", [](D x, const D* p) { return x > 0.0 ? x : p[0] * std::expm1(x); }),
      unary<D>("erf", [](D x, const D*) { return std::erf(x); }),
      unary<D>("erfc", [](D x, const D*) { return std::erfc(x); }),
      unary<D>("exp", [](D x, const D*) { return std::exp(x); }),
      unary<D>("expm1", [](D x, const D*) { return std::expm1(x); }),
      unary<D>("gelu",
               [](D x, const D*) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); }),
      unary<D>("gelu:tanh", [](D x, const D*) { return 0.5 * x * (1.0 + geluTanh(x)); }),
      binary<D>("gelu_grad", [](D x, D dy) { return geluSlope(x) * dy; }),
      binary<D>("gelu_grad:tanh", [](D x, D dy) { return geluTanhSlope(x) * dy; }),
      unary<D>("log", [](D x, const D*) { return std::log(x); }),
      unary<D>("log1p", [](D x, const D*) { return std::log1p(x); }),
      binary<D>("pow", [](D x, D y) { return std::pow(x, y); }),
      unary<D>("rsqrt", [](D x, const D*) { return 1.0 / std::sqrt(x); }),
      unary<D>("sigmoid", [](D x, const D*) { return 1.0 / (1.0 + std::exp(-x)); }),
      unary<D>("silu", [](D x, const D*) { return x / (1.0 + std::exp(-x)); }),
      unary<D>("sin", [](D x, const D*) { return std::sin(x); }),
      unary<D>("sinh", [](D x, const D*) { return std::sinh(x); }),
      unary<D>(
          "softplus",
          [](D x, const D*) { return (x > 0.0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x))); }),
      unary<D>("tan", [](D x, const D*) { return std::tan(x); }),
      unary<D>("tanh", [](D x, const D*) { return std::tanh(x); }),
  };
  return findRow(kRows, op);
}

BlockFunction doubleFunction(std::string_view op) {
  using D = double;
  static constexpr NamedBlock kRows[] = {
      unary<D>("ceil", [](D x, const D*) { return std::ceil(x); }),
      unary<D>("floor", [](D x, const D*) { return std::floor(x); }),
      unary<D, bool>("is_nan", [](D x, const D*) { return std::isnan(x); }),
      unary<D>("leaky_relu", [](D x, const D* p) { return x > 0.0 ? x : p[0] * x; }),
      unary<D>("reciprocal", [](D x, const D*) { return 1.0 / x; }),
      unary<D>("relu", [](D x, const D*) { return x < 0.0 ? 0.0 : x; }),
      binary<D>("relu_grad", [](D y, D dy) { return y > 0.0 ? dy : 0.0; }),
      unary<D>("round", [](D x, const D*) { return std::nearbyint(x); }),
      unary<D>("sqrt", [](D x, const D*) { return std::sqrt(x); }),
  };
  const BlockFunction found = findRow(kRows, op);
  return found != nullptr ? found : doubleMath(op);
}

}  // namespace

BlockFunction findPlainFunction(std::string_view op, DType dtype) {
  return dispatch(dtype, [&]<class T>(T) -> BlockFunction {
    if constexpr (std::is_arithmetic_v<T>) {
      BlockFunction found = anyFunction<T>(op);
      if constexpr (!std::is_same_v<T, bool>) {
        found = found != nullptr ? found : numberFunction<T>(op);
        if constexpr (std::is_integral_v<T>) {
          found = found != nullptr ? found : integerFunction<T>(op);
        }
      } else {
        found = found != nullptr ? found : boolFunction(op);
      }
      if constexpr (std::is_same_v<T, double>) {
        found = found != nullptr ? found : doubleFunction(op);
      }
      return found;
    }
    return nullptr;
  });
}

BlockFunction findBlockFunction(std::string_view op, DType dtype) {
  if (dtype != DType::F32) {
    return findPlainFunction(op, dtype);
  }
  BlockFunction found = findF32Function(op);
  found = found != nullptr ? found : findMathFunction(op);
  return found != nullptr ? found : findTrigFunction(op);
}

}  // namespace sluice::devices::cpu
