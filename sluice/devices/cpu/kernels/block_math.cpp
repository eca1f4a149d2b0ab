// Block functions on float32 by approximation: exponentials, logarithms and their relatives.
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/block_math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/block_loops-inl.h"
#include "sluice/devices/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

#define SLUICE_MATH(Name, expression)                                                            \
  struct Name {                                                                                  \
    static HWY_INLINE FloatVec apply(FloatTag d, FloatVec x, [[maybe_unused]] const double* p) { \
      return expression;                                                                         \
    }                                                                                            \
  };
SLUICE_MATH(ErfOp, Erf(d, x))
SLUICE_MATH(ErfcOp, Erfc(d, x))
SLUICE_MATH(ExpOp, Exp(d, x))
SLUICE_MATH(Expm1Op, Expm1(d, x))
SLUICE_MATH(GeluOp, Gelu(d, x))
SLUICE_MATH(GeluTanhOp, GeluTanh(d, x))
SLUICE_MATH(LogOp, Log(d, x))
SLUICE_MATH(Log1pOp, Log1p(d, x))
SLUICE_MATH(SigmoidOp, Sigmoid(d, x))
SLUICE_MATH(SiluOp, hn::Mul(x, Sigmoid(d, x)))
SLUICE_MATH(SoftplusOp, Softplus(d, x))
SLUICE_MATH(TanhOp, Tanh(d, x))
SLUICE_MATH(EluOp,
            hn::IfThenElse(hn::Gt(x, hn::Zero(d)),
                           x,
                           hn::Mul(hn::Set(d, static_cast<float>(p[0])), Expm1(d, x))))

struct GeluGradOp {
  static HWY_INLINE FloatVec apply(FloatTag d, FloatVec x, FloatVec dy) {
    return hn::Mul(GeluSlope(d, x), dy);
  }
};
struct GeluTanhGradOp {
  static HWY_INLINE FloatVec apply(FloatTag d, FloatVec x, FloatVec dy) {
    return hn::Mul(GeluTanhSlope(d, x), dy);
  }
};

using DoubleTag = hn::ScalableTag<double>;
using HalfFloatTag = hn::Rebind<float, DoubleTag>;

/// The reduction of larger arguments needs more digits of pi: left to the library.
constexpr float kSinLimit = 1048576.0F;

template <bool kCos>
HWY_INLINE void sinVector(const float* in, float* out) {
  const DoubleTag dd;
  const HalfFloatTag df;
  const auto x = hn::PromoteTo(dd, hn::LoadU(df, in));
  hn::StoreU(hn::DemoteTo(df, SinQuarter(dd, x, kCos ? 1.0 : 0.0)), df, out);
}

template <bool kCos>
void sinLoop(const BlockArgs& args) {
  const std::size_t lanes = hn::Lanes(DoubleTag());
  const auto total = static_cast<std::size_t>(args.n);
  const std::size_t n = (args.single & 1U) != 0 && total != 0 ? 1 : total;
  const auto* in = static_cast<const float*>(args.in[0]);
  auto* out = static_cast<float*>(args.out);
  for (std::size_t i = 0; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    HWY_ALIGN float x[kMaxFloatLanes] = {};
    HWY_ALIGN float y[kMaxFloatLanes];
    std::memcpy(x, in + i, count * sizeof(float));
    sinVector<kCos>(x, y);
    for (std::size_t j = 0; j < count; ++j) {
      if (!(std::fabs(x[j]) < kSinLimit)) {
        const auto wide = static_cast<double>(x[j]);
        y[j] = static_cast<float>(kCos ? std::cos(wide) : std::sin(wide));
      } else if (!kCos && x[j] == 0.0F) {
        y[j] = x[j];  // keeps -0
      }
    }
    std::memcpy(out + i, y, count * sizeof(float));
  }
  if (n < total) {
    fillBlock(out, total);
  }
}

/// Element by element: the exponents of interest are mostly 2 and 0.5, which are ops of their own.
void powLoop(const BlockArgs& args) {
  const auto* x = static_cast<const float*>(args.in[0]);
  const auto* y = static_cast<const float*>(args.in[1]);
  auto* out = static_cast<float*>(args.out);
  const std::int64_t stepX = (args.single & 1U) != 0 ? 0 : 1;
  const std::int64_t stepY = (args.single & 2U) != 0 ? 0 : 1;
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = static_cast<float>(
        std::pow(static_cast<double>(x[i * stepX]), static_cast<double>(y[i * stepY])));
  }
}

constexpr NamedBlock kRows[] = {
    {"cos", sinLoop<true>},
    {"elu", unaryLoop<EluOp>},
    {"erf", unaryLoop<ErfOp>},
    {"erfc", unaryLoop<ErfcOp>},
    {"exp", unaryLoop<ExpOp>},
    {"expm1", unaryLoop<Expm1Op>},
    {"gelu", unaryLoop<GeluOp>},
    {"gelu:tanh", unaryLoop<GeluTanhOp>},
    {"gelu_grad", binaryLoop<GeluGradOp>},
    {"gelu_grad:tanh", binaryLoop<GeluTanhGradOp>},
    {"log", unaryLoop<LogOp>},
    {"log1p", unaryLoop<Log1pOp>},
    {"pow", powLoop},
    {"sigmoid", unaryLoop<SigmoidOp>},
    {"silu", unaryLoop<SiluOp>},
    {"sin", sinLoop<false>},
    {"softplus", unaryLoop<SoftplusOp>},
    {"tanh", unaryLoop<TanhOp>},
};

}  // namespace

BlockFunction mathRow(std::string_view op) {
  return findRow(kRows, op);
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
HWY_EXPORT(mathRow);

BlockFunction findMathFunction(std::string_view op) {
  return HWY_DYNAMIC_DISPATCH(mathRow)(op);
}

}  // namespace sluice::devices::cpu
#endif
