// Block functions on float32: trigonometric, hyperbolic and inverse functions, and remainders.
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/block_trig.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/block_loops-inl.h"
#include "sluice/devices/cpu/kernels/vector_trig-inl.h"
#include "sluice/ops/integer_math.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

#define SLUICE_TRIG(Name)                                                                \
  struct Name##Op {                                                                      \
    static HWY_INLINE FloatVec apply(FloatTag d, FloatVec x, const double* /*params*/) { \
      return Name(d, x);                                                                 \
    }                                                                                    \
  };
SLUICE_TRIG(Acos)
SLUICE_TRIG(Acosh)
SLUICE_TRIG(Asin)
SLUICE_TRIG(Asinh)
SLUICE_TRIG(Atan)
SLUICE_TRIG(Atanh)
SLUICE_TRIG(Cosh)
SLUICE_TRIG(Sinh)

using DoubleTag = hn::ScalableTag<double>;
using HalfFloatTag = hn::Rebind<float, DoubleTag>;

/// The reduction of larger arguments needs more digits of pi: left to the library.
constexpr float kTanLimit = 1048576.0F;

HWY_INLINE void tanVector(const float* in, float* out) {
  const DoubleTag dd;
  const HalfFloatTag df;
  const auto x = hn::PromoteTo(dd, hn::LoadU(df, in));
  const auto y = hn::Div(SinQuarter(dd, x, 0.0), SinQuarter(dd, x, 1.0));
  hn::StoreU(hn::DemoteTo(df, y), df, out);
}

void tanLoop(const BlockArgs& args) {
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
    tanVector(x, y);
    for (std::size_t j = 0; j < count; ++j) {
      if (!(std::fabs(x[j]) < kTanLimit)) {
        y[j] = static_cast<float>(std::tan(static_cast<double>(x[j])));
      } else if (x[j] == 0.0F) {
        y[j] = x[j];  // keeps -0
      }
    }
    std::memcpy(out + i, y, count * sizeof(float));
  }
  if (n < total) {
    fillBlock(out, total);
  }
}

/// Element by element in double: rare ops.
template <class F>
void doubleLoop(const BlockArgs& args) {
  const auto* x = static_cast<const float*>(args.in[0]);
  const auto* y = static_cast<const float*>(args.in[1]);
  auto* out = static_cast<float*>(args.out);
  const std::int64_t stepX = (args.single & 1U) != 0 ? 0 : 1;
  const std::int64_t stepY = (args.single & 2U) != 0 ? 0 : 1;
  for (std::int64_t i = 0; i < args.n; ++i) {
    out[i] = static_cast<float>(
        F::apply(static_cast<double>(x[i * stepX]), static_cast<double>(y[i * stepY])));
  }
}
struct Atan2Op {
  static double apply(double y, double x) { return std::atan2(y, x); }
};
struct ModOp {
  static double apply(double x, double y) { return ops::flooredRemainder(x, y); }
};
struct FmodOp {
  static double apply(double x, double y) { return ops::truncatedRemainder(x, y); }
};

constexpr NamedBlock kRows[] = {
    {"acos", unaryLoop<AcosOp>},
    {"acosh", unaryLoop<AcoshOp>},
    {"asin", unaryLoop<AsinOp>},
    {"asinh", unaryLoop<AsinhOp>},
    {"atan", unaryLoop<AtanOp>},
    {"atan2", doubleLoop<Atan2Op>},
    {"atanh", unaryLoop<AtanhOp>},
    {"cosh", unaryLoop<CoshOp>},
    {"mod", doubleLoop<ModOp>},
    {"mod:fmod", doubleLoop<FmodOp>},
    {"sinh", unaryLoop<SinhOp>},
    {"tan", tanLoop},
};

}  // namespace

BlockFunction trigRow(std::string_view op) {
  return findRow(kRows, op);
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
HWY_EXPORT(trigRow);

BlockFunction findTrigFunction(std::string_view op) {
  return HWY_DYNAMIC_DISPATCH(trigRow)(op);
}

}  // namespace sluice::devices::cpu
#endif
