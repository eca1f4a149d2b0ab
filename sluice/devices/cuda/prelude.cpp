#include "sluice/devices/cuda/source.h"

namespace sluice::devices::cuda {
namespace {

// NVRTC takes no header here, so that a small program compiles in a few milliseconds.
constexpr std::string_view kTypes = R"(
#define D static __device__ __forceinline__
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;
typedef float f32; typedef double f64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct Run { u64 seed; i64 microBatch; i64 microBatchInRound; i32 replica; };
struct Fault { i32 taken; i32 kind; i32 call; i32 ready; i64 value; i64 limit; };

D float wide(f32 x) { return x; }
D double wide(f64 x) { return x; }
D float wide(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
D float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
D i64 wide(i8 x) { return x; }
D i64 wide(i16 x) { return x; }
D i64 wide(i32 x) { return x; }
D i64 wide(i64 x) { return x; }
D u64 wide(u8 x) { return x; }
D u64 wide(u16 x) { return x; }
D u64 wide(u32 x) { return x; }
D u64 wide(u64 x) { return x; }
D bool wide(bool x) { return x; }

template <class T> struct Narrow { template <class W> D T of(W x) { return (T)x; } };
template <> struct Narrow<f16> {
  D f16 of(float x) { f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
  D f16 of(double x) { return of((float)x); }
};
template <> struct Narrow<bf16> {
  D bf16 of(float x) {
    const u32 b = __float_as_uint(x);
    bf16 y;
    y.bits = x != x ? (u16)(b >> 16 | 0x40) : (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
    return y;
  }
  D bf16 of(double x) { return of((float)x); }
};
template <class T, class W> D T narrow(W x) { return Narrow<T>::of(x); }
/// The value after rounding to T.
template <class T, class W> D auto rounded(W x) { return wide(narrow<T>(x)); }

template <class T> struct Bounds;
#define BOUNDS(T, LOW, HIGH) template <> struct Bounds<T> { \
  D T low() { return (T)(LOW); } D T high() { return (T)(HIGH); } };
BOUNDS(i8, -128, 127) BOUNDS(u8, 0, 255) BOUNDS(i16, -32768, 32767) BOUNDS(u16, 0, 65535)
BOUNDS(i32, -2147483647 - 1, 2147483647) BOUNDS(u32, 0, 0xffffffffu)
BOUNDS(i64, -9223372036854775807ll - 1, 9223372036854775807ll) BOUNDS(u64, 0, ~0ull)

/// What a cast makes of a number: integers take the nearest, NaN is 0.
template <class T> struct FromDouble {
  D T of(double x) {
    if (x != x) return 0;
    if (x <= (double)Bounds<T>::low()) return Bounds<T>::low();
    return x >= (double)Bounds<T>::high() ? Bounds<T>::high() : (T)x;
  }
};
template <> struct FromDouble<f32> { D f32 of(double x) { return (f32)x; } };
template <> struct FromDouble<f64> { D f64 of(double x) { return x; } };
template <> struct FromDouble<f16> { D f16 of(double x) { return narrow<f16>((float)x); } };
template <> struct FromDouble<bf16> { D bf16 of(double x) { return narrow<bf16>((float)x); } };
template <> struct FromDouble<bool> { D bool of(double x) { return x != 0.0; } };
template <class T> struct IsInteger { static constexpr bool value = false; };
#define INTEGER(T) template <> struct IsInteger<T> { static constexpr bool value = true; };
INTEGER(i8) INTEGER(u8) INTEGER(i16) INTEGER(u16) INTEGER(i32) INTEGER(u32) INTEGER(i64) INTEGER(u64)
template <class T, class W> D T convert(W x) {
  if constexpr (IsInteger<T>::value && (IsInteger<W>::value || sizeof(W) == 1)) return (T)(u64)x;
  else return FromDouble<T>::of((double)x);
}
)";

constexpr std::string_view kFunctions = R"(
#define MATH(NAME) D float m_##NAME(float x) { return NAME##f(x); } \
  D double m_##NAME(double x) { return NAME(x); }
MATH(acos) MATH(acosh) MATH(asin) MATH(asinh) MATH(atan) MATH(atanh) MATH(ceil) MATH(cos) MATH(cosh)
MATH(erf) MATH(erfc) MATH(exp) MATH(expm1) MATH(fabs) MATH(floor) MATH(log) MATH(log1p) MATH(rint)
MATH(sin) MATH(sinh) MATH(sqrt) MATH(tan) MATH(tanh)
D float m_pow(float x, float y) { return powf(x, y); }
D double m_pow(double x, double y) { return pow(x, y); }
D float m_atan2(float x, float y) { return atan2f(x, y); }
D double m_atan2(double x, double y) { return atan2(x, y); }
D float m_fmod(float x, float y) { return fmodf(x, y); }
D double m_fmod(double x, double y) { return fmod(x, y); }

#define T1 template <class W> D W
T1 op_acos(W x) { return m_acos(x); }
T1 op_acosh(W x) { return m_acosh(x); }
T1 op_asin(W x) { return m_asin(x); }
T1 op_asinh(W x) { return m_asinh(x); }
T1 op_atan(W x) { return m_atan(x); }
T1 op_atanh(W x) { return m_atanh(x); }
T1 op_ceil(W x) { return m_ceil(x); }
T1 op_cos(W x) { return m_cos(x); }
T1 op_cosh(W x) { return m_cosh(x); }
T1 op_erf(W x) { return m_erf(x); }
T1 op_erfc(W x) { return m_erfc(x); }
T1 op_exp(W x) { return m_exp(x); }
T1 op_expm1(W x) { return m_expm1(x); }
T1 op_floor(W x) { return m_floor(x); }
T1 op_log(W x) { return m_log(x); }
T1 op_log1p(W x) { return m_log1p(x); }
T1 op_round(W x) { return m_rint(x); }
T1 op_sin(W x) { return m_sin(x); }
T1 op_sinh(W x) { return m_sinh(x); }
T1 op_sqrt(W x) { return m_sqrt(x); }
T1 op_tan(W x) { return m_tan(x); }
T1 op_tanh(W x) { return m_tanh(x); }
T1 op_reciprocal(W x) { return W(1) / x; }
T1 op_rsqrt(W x) { return W(1) / m_sqrt(x); }
T1 op_sigmoid(W x) { return W(1) / (W(1) + m_exp(-x)); }
T1 op_silu(W x) { return x / (W(1) + m_exp(-x)); }
T1 op_softplus(W x) { return (x > W(0) ? x : W(0)) + m_log1p(m_exp(-m_fabs(x))); }
T1 op_elu(W x, double alpha) { return x > W(0) ? x : W(alpha) * m_expm1(x); }
T1 op_leaky_relu(W x, double alpha) { return x > W(0) ? x : W(alpha) * x; }
T1 op_relu(W x) { return x < W(0) ? W(0) : x; }
T1 op_relu_grad(W y, W dy) { return y > W(0) ? dy : W(0); }
T1 op_gelu_none(W x) { return W(0.5) * x * (W(1) + m_erf(x * W(0.70710678118654752440))); }
T1 op_gelu_tanh(W x) {
  return W(0.5) * x * (W(1) + m_tanh(W(0.79788456080286535588) * (x + W(0.044715) * x * x * x)));
}
T1 op_gelu_grad_none(W x, W dy) {
  const W density = m_exp(W(-0.5) * x * x) * W(0.39894228040143267794);
  return (W(0.5) * (W(1) + m_erf(x * W(0.70710678118654752440))) + x * density) * dy;
}
T1 op_gelu_grad_tanh(W x, W dy) {
  const W scale = W(0.79788456080286535588);
  const W t = m_tanh(scale * (x + W(0.044715) * x * x * x));
  const W inner = scale * (W(1) + W(3 * 0.044715) * x * x);
  return (W(0.5) * (W(1) + t) + W(0.5) * x * (W(1) - t * t) * inner) * dy;
}
T1 op_pow(W x, W y) { return m_pow(x, y); }
T1 op_atan2(W x, W y) { return m_atan2(x, y); }

// Integers wrap, and what is divided by 0 is 0.
T1 op_add(W x, W y) { return x + y; }
T1 op_sub(W x, W y) { return x - y; }
T1 op_mul(W x, W y) { return x * y; }
T1 op_neg(W x) { return -x; }
T1 op_square(W x) { return x * x; }
T1 op_div(W x, W y) { return x / y; }
D i64 op_add(i64 x, i64 y) { return (i64)((u64)x + (u64)y); }
D i64 op_sub(i64 x, i64 y) { return (i64)((u64)x - (u64)y); }
D i64 op_mul(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }
D i64 op_neg(i64 x) { return (i64)(0 - (u64)x); }
D i64 op_square(i64 x) { return (i64)((u64)x * (u64)x); }
D i64 op_div(i64 x, i64 y) { return y == 0 ? 0 : y == -1 ? op_neg(x) : x / y; }
D u64 op_div(u64 x, u64 y) { return y == 0 ? 0 : x / y; }
T1 op_fmod(W x, W y) { return m_fmod(x, y); }
D i64 op_fmod(i64 x, i64 y) { return y == 0 || y == -1 ? 0 : x % y; }
D u64 op_fmod(u64 x, u64 y) { return y == 0 ? 0 : x % y; }
T1 op_mod(W x, W y) {
  const W rest = op_fmod(x, y);
  return rest != W(0) && (rest < W(0)) != (y < W(0)) ? rest + y : rest;
}
T1 op_abs(W x) { return m_fabs(x); }
D i64 op_abs(i64 x) { return x < 0 ? op_neg(x) : x; }
D u64 op_abs(u64 x) { return x; }
T1 op_sign(W x) { return x != x ? x : W((x > W(0)) - (x < W(0))); }
T1 op_maximum(W x, W y) { return x != x ? x : y != y ? y : x < y ? y : x; }
T1 op_minimum(W x, W y) { return x != x ? x : y != y ? y : y < x ? y : x; }
T1 op_clamp(W x, W low, W high) { return x < low ? low : high < x ? high : x; }
T1 op_shift_left(W x, W y) { return y < W(0) || y >= W(64) ? W(0) : (W)((u64)x << (u64)y); }
T1 op_shift_right(W x, W y) {
  return y < W(0) || y >= W(64) ? (x < W(0) ? (W)-1 : W(0)) : (W)(x >> y);
}
T1 op_bitwise_and(W x, W y) { return x & y; }
T1 op_bitwise_or(W x, W y) { return x | y; }
T1 op_bitwise_xor(W x, W y) { return x ^ y; }
T1 op_bitwise_not(W x) { return ~x; }
D bool op_logical_and(bool x, bool y) { return x && y; }
D bool op_logical_or(bool x, bool y) { return x || y; }
D bool op_logical_xor(bool x, bool y) { return x != y; }
D bool op_logical_not(bool x) { return !x; }
#define COMPARE template <class W> D bool
COMPARE op_equal(W x, W y) { return x == y; }
COMPARE op_not_equal(W x, W y) { return x != y; }
COMPARE op_less(W x, W y) { return x < y; }
COMPARE op_less_equal(W x, W y) { return x <= y; }
COMPARE op_greater(W x, W y) { return x > y; }
COMPARE op_greater_equal(W x, W y) { return x >= y; }
COMPARE op_is_nan(W x) { return x != x; }
T1 op_where(bool c, W x, W y) { return c ? x : y; }
T1 op_prod(W x, W y) { return op_mul(x, y); }
)";

constexpr std::string_view kTools = R"(
/// A value of the thread that is `by` lanes further.
template <class W> D W shuffleDown(W value, int by) {
  if constexpr (sizeof(W) == 8) {
    union { W whole; int parts[2]; } from, to;
    from.whole = value;
    to.parts[0] = __shfl_down_sync(0xffffffffu, from.parts[0], by);
    to.parts[1] = __shfl_down_sync(0xffffffffu, from.parts[1], by);
    return to.whole;
  } else if constexpr (sizeof(W) == 4) {
    union { W whole; int parts; } from, to;
    from.whole = value;
    to.parts = __shfl_down_sync(0xffffffffu, from.parts, by);
    return to.whole;
  } else {
    return (W)__shfl_down_sync(0xffffffffu, (int)value, by);
  }
}
/// The elements of a block in a fixed order: a tree inside of each warp, then warp by warp. Every
/// thread gets the result. The number of threads is a multiple of 32, up to 1024.
template <class W, class F> D W blockFold(W value, F f) {
  __shared__ W parts[32];
  for (int by = 16; by > 0; by /= 2) value = f(value, shuffleDown(value, by));
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) value = f(value, parts[warp]);
  return value;
}
template <class W> D W blockSum(W value) {
  return blockFold(value, [](W x, W y) { return op_add(x, y); });
}

D void report(Fault* fault, int kind, int call, i64 value, i64 limit) {
  if (atomicCAS_system(&fault->taken, 0, 1) != 0) return;
  fault->kind = kind;
  fault->call = call;
  fault->value = value;
  fault->limit = limit;
  __threadfence_system();
  *(volatile i32*)&fault->ready = 1;
}
/// The place of an index, which counts from the end if it is negative; -1 and a fault if there is
/// none.
D i64 place(i64 index, i64 extent, Fault* fault, int call) {
  const i64 at = index < 0 ? index + extent : index;
  if (at >= 0 && at < extent) return at;
  report(fault, 1, call, index, extent);
  return -1;
}
/// The class of a label, or -1 if it is ignored or, with a fault, out of range.
D i64 classOf(i64 label, i64 ignore, i64 classes, Fault* fault, int call) {
  if (label == ignore) return -1;
  if (label >= 0 && label < classes) return label;
  report(fault, 2, call, label, classes);
  return -1;
}

/// Elements that lie side by side, moved at once; the place is a multiple of their size.
template <int BYTES> struct Packet;
template <> struct Packet<32> { struct __align__(16) type { u32 at[8]; }; };
template <> struct Packet<16> { struct __align__(16) type { u32 at[4]; }; };
template <> struct Packet<8> { struct __align__(8) type { u32 at[2]; }; };
template <> struct Packet<4> { typedef u32 type; };
template <> struct Packet<2> { typedef u16 type; };
template <> struct Packet<1> { typedef u8 type; };
template <int N, class T> struct Elements {
  union { typename Packet<N * sizeof(T)>::type packet; T at[N]; };
};
template <int N, class T> D Elements<N, T> load(const T* from) {
  Elements<N, T> elements;
  elements.packet = *(const typename Packet<N * sizeof(T)>::type*)from;
  return elements;
}
template <int N, class T> D void store(T* to, const Elements<N, T>& elements) {
  *(typename Packet<N * sizeof(T)>::type*)to = elements.packet;
}

struct Words { u32 at[4]; };
D Words philox(u64 key, u64 block, u32 ordinal, u32 microBatch) {
  u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = ordinal, c3 = microBatch;
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    const u32 d0 = (u32)(p1 >> 32) ^ c1 ^ k0, d2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c0 = d0; c1 = (u32)p1; c2 = d2; c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
D u32 wordOf(u64 key, u64 element, u32 ordinal, u32 microBatch) {
  return philox(key, element / 4, ordinal, microBatch).at[element % 4];
}
D float uniform01(u32 word) { return (float)(word >> 8) * 5.9604644775390625e-8f; }
)";

}  // namespace

std::string_view prelude() {
  static const std::string kAll =
      std::string(kTypes) + std::string(kFunctions) + std::string(kTools);
  return kAll;
}

}  // namespace sluice::devices::cuda
