// softmax, log_softmax and their gradients of float32 along the last axis: one thread per row.
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"
#include "sluice/devices/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

float maximumOf(const float* x, std::size_t n) {
  return static_cast<float>(
      foldRow<MaxFold>(n, [x](auto load, std::size_t i) HWY_ATTR { return load(x + i); }));
}

}  // namespace

/// The second operand is not used.
void softmaxRow(const float* x, const float* /*unused*/, float* y, std::size_t n) {
  const FloatTag d;
  const FloatVec top = hn::Set(d, maximumOf(x, n));
  mapRow(
      n, y, [&](auto load, std::size_t i) HWY_ATTR { return Exp(d, hn::Sub(load(x + i), top)); });
  const double sum = sumRow(n, [&](auto load, std::size_t i) HWY_ATTR { return load(y + i); });
  const FloatVec total = hn::Set(d, static_cast<float>(sum));
  mapRow(n, y, [&](auto load, std::size_t i) HWY_ATTR { return hn::Div(load(y + i), total); });
}

void logSoftmaxRow(const float* x, const float* /*unused*/, float* y, std::size_t n) {
  const FloatTag d;
  const FloatVec top = hn::Set(d, maximumOf(x, n));
  const double sum = sumRow(
      n, [&](auto load, std::size_t i) HWY_ATTR { return Exp(d, hn::Sub(load(x + i), top)); });
  const FloatVec logSum = hn::Set(d, static_cast<float>(std::log(sum)));
  mapRow(n, y, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Sub(hn::Sub(load(x + i), top), logSum);
  });
}

/// dx = y (dy - sum(y dy))
void softmaxGradRow(const float* y, const float* dy, float* dx, std::size_t n) {
  const double dot = sumRow(
      n, [&](auto load, std::size_t i) HWY_ATTR { return hn::Mul(load(y + i), load(dy + i)); });
  const FloatVec sum = hn::Set(FloatTag(), static_cast<float>(dot));
  mapRow(n, dx, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Mul(load(y + i), hn::Sub(load(dy + i), sum));
  });
}

/// dx = dy - exp(y) sum(dy)
void logSoftmaxGradRow(const float* y, const float* dy, float* dx, std::size_t n) {
  const FloatTag d;
  const double total = sumRow(n, [&](auto load, std::size_t i) HWY_ATTR { return load(dy + i); });
  const FloatVec sum = hn::Set(d, static_cast<float>(total));
  mapRow(n, dx, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Sub(load(dy + i), hn::Mul(Exp(d, load(y + i)), sum));
  });
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/ops/softmax.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(softmaxRow);
HWY_EXPORT(logSoftmaxRow);
HWY_EXPORT(softmaxGradRow);
HWY_EXPORT(logSoftmaxGradRow);

using RowFunction = void (*)(const float*, const float*, float*, std::size_t);

RowFunction rowFunction(std::string_view op) {
  if (op == "softmax") {
    return HWY_DYNAMIC_DISPATCH(softmaxRow);
  }
  if (op == "log_softmax") {
    return HWY_DYNAMIC_DISPATCH(logSoftmaxRow);
  }
  return op == "softmax_grad" ? HWY_DYNAMIC_DISPATCH(softmaxGradRow)
                              : HWY_DYNAMIC_DISPATCH(logSoftmaxGradRow);
}

class Softmax : public device::Kernel {
 public:
  Softmax(RowFunction function, const ops::AxisDims& dims)
      : function_(function), rows_(dims.outer), columns_(dims.extent) {}

  void run(const device::KernelRun& run) override {
    const std::int64_t perTile = itemsPerTile(columns_);
    const float* second = run.inputs.size() > 1 ? run.in<float>(1) : nullptr;
    run.workers.parallelFor(ceilDiv(rows_, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(rows_, (tile + 1) * perTile);
      for (std::int64_t r = tile * perTile; r < last; ++r) {
        const std::int64_t at = r * columns_;
        function_(run.in<float>(0) + at,
                  second == nullptr ? nullptr : second + at,
                  run.out<float>(0) + at,
                  static_cast<std::size_t>(columns_));
      }
    });
  }

 private:
  RowFunction function_;
  std::int64_t rows_;
  std::int64_t columns_;
};

}  // namespace

bool supportsSoftmax(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F32 && ops::axisDims(op).inner == 1;
}

std::unique_ptr<device::Kernel> makeSoftmax(const ir::OpView& op,
                                            const device::Choice& /*choice*/) {
  return std::make_unique<Softmax>(rowFunction(op.def.name), ops::axisDims(op));
}

}  // namespace sluice::devices::cpu
#endif
