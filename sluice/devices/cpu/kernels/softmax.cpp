// softmax, log_softmax and their gradients of float32: one thread per line along the axis, or,
// where many lines lie side by side, per strip of neighbours.
#include "sluice/devices/cpu/kernels/softmax.h"

#include <array>

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

namespace {

/// to[c] = fold over the rows of f(loader, offset of the row, c).
template <class Fold, class F>
HWY_INLINE void foldStrip(const SoftmaxStrip& s, float* to, F f) {
  foldColumns<Fold>(
      {0, s.rows}, s.columns, to, [&s](std::int64_t r) { return r * s.stride; }, f);
}

/// to[row, c] = f(loader, offset of the row, c)
template <class F>
HWY_INLINE void mapStrip(const SoftmaxStrip& s, float* to, F f) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t at = r * s.stride;
    mapRow(s.columns, to + at, [&](auto load, std::size_t c) HWY_ATTR { return f(load, at, c); });
  }
}

}  // namespace

void softmaxStrip(const SoftmaxStrip& s) {
  const FloatTag d;
  const float* x = s.x;
  float* y = s.y;
  HWY_ALIGN float top[kSoftmaxColumns];
  HWY_ALIGN float sum[kSoftmaxColumns];
  foldStrip<MaxFold>(
      s, top, [x](auto load, std::int64_t at, std::size_t c) HWY_ATTR { return load(x + at + c); });
  mapStrip(s, y, [&](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return Exp(d, hn::Sub(load(x + at + c), load(top + c)));
  });
  foldStrip<SumFold>(
      s, sum, [y](auto load, std::int64_t at, std::size_t c) HWY_ATTR { return load(y + at + c); });
  mapStrip(s, y, [&](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return hn::Div(load(y + at + c), load(sum + c));
  });
}

void logSoftmaxStrip(const SoftmaxStrip& s) {
  const FloatTag d;
  const float* x = s.x;
  HWY_ALIGN float top[kSoftmaxColumns];
  HWY_ALIGN float logSum[kSoftmaxColumns];
  foldStrip<MaxFold>(
      s, top, [x](auto load, std::int64_t at, std::size_t c) HWY_ATTR { return load(x + at + c); });
  const float* highest = top;
  foldStrip<SumFold>(s, logSum, [=](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return Exp(d, hn::Sub(load(x + at + c), load(highest + c)));
  });
  for (std::size_t c = 0; c < s.columns; ++c) {
    logSum[c] = static_cast<float>(std::log(static_cast<double>(logSum[c])));
  }
  mapStrip(s, s.y, [&](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return hn::Sub(hn::Sub(load(x + at + c), load(top + c)), load(logSum + c));
  });
}

/// dx = y (dy - sum(y dy)); the strip's x is y, its y is dx.
void softmaxGradStrip(const SoftmaxStrip& s) {
  const float* y = s.x;
  const float* dy = s.dy;
  HWY_ALIGN float dot[kSoftmaxColumns];
  foldStrip<SumFold>(s, dot, [=](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return hn::Mul(load(y + at + c), load(dy + at + c));
  });
  mapStrip(s, s.y, [&](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return hn::Mul(load(y + at + c), hn::Sub(load(dy + at + c), load(dot + c)));
  });
}

/// dx = dy - exp(y) sum(dy); the strip's x is y, its y is dx.
void logSoftmaxGradStrip(const SoftmaxStrip& s) {
  const FloatTag d;
  const float* y = s.x;
  const float* dy = s.dy;
  HWY_ALIGN float sum[kSoftmaxColumns];
  foldStrip<SumFold>(s, sum, [dy](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return load(dy + at + c);
  });
  mapStrip(s, s.y, [&](auto load, std::int64_t at, std::size_t c) HWY_ATTR {
    return hn::Sub(load(dy + at + c), hn::Mul(Exp(d, load(y + at + c)), load(sum + c)));
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
HWY_EXPORT(softmaxStrip);
HWY_EXPORT(logSoftmaxStrip);
HWY_EXPORT(softmaxGradStrip);
HWY_EXPORT(logSoftmaxGradStrip);

using RowFunction = void (*)(const float*, const float*, float*, std::size_t);
using StripFunction = void (*)(const SoftmaxStrip&);

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

StripFunction stripFunction(std::string_view op) {
  if (op == "softmax") {
    return HWY_DYNAMIC_DISPATCH(softmaxStrip);
  }
  if (op == "log_softmax") {
    return HWY_DYNAMIC_DISPATCH(logSoftmaxStrip);
  }
  return op == "softmax_grad" ? HWY_DYNAMIC_DISPATCH(softmaxGradStrip)
                              : HWY_DYNAMIC_DISPATCH(logSoftmaxGradStrip);
}

const float* second(const KernelRun& run) {
  return run.inputs.size() > 1 ? run.in<float>(1) : nullptr;
}

/// Along the last axis.
class SoftmaxRows : public Kernel {
 public:
  SoftmaxRows(RowFunction function, const ops::AxisDims& dims)
      : function_(function), rows_(dims.outer), columns_(dims.extent) {}

  void run(const KernelRun& run) override {
    const std::int64_t perTile = itemsPerTile(columns_);
    const float* dy = second(run);
    run.workers.parallelFor(ceilDiv(rows_, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(rows_, (tile + 1) * perTile);
      for (std::int64_t r = tile * perTile; r < last; ++r) {
        const std::int64_t at = r * columns_;
        function_(run.in<float>(0) + at,
                  dy == nullptr ? nullptr : dy + at,
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

/// Along an axis with few elements behind it: each line is brought together, and taken apart after.
class SoftmaxLines : public Kernel {
 public:
  static bool suits(const ops::AxisDims& d) { return d.inner < 16 && d.extent <= kLongest; }

  SoftmaxLines(RowFunction function, const ops::AxisDims& dims) : function_(function), d_(dims) {}

  void run(const KernelRun& run) override {
    const std::int64_t lines = d_.outer * d_.inner;
    const std::int64_t perTile = itemsPerTile(d_.extent);
    run.workers.parallelFor(ceilDiv(lines, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(lines, (tile + 1) * perTile);
      for (std::int64_t line = tile * perTile; line < last; ++line) {
        runLine(run, line / d_.inner * d_.extent * d_.inner + line % d_.inner);
      }
    });
  }

 private:
  static constexpr std::int64_t kLongest = 2048;
  using Line = std::array<float, kLongest>;

  void runLine(const KernelRun& run, std::int64_t first) const {
    Line x;
    Line dy;
    Line y;
    collect(run.in<float>(0) + first, x);
    if (run.inputs.size() > 1) {
      collect(run.in<float>(1) + first, dy);
    }
    function_(x.data(), dy.data(), y.data(), static_cast<std::size_t>(d_.extent));
    float* to = run.out<float>(0) + first;
    for (std::int64_t i = 0; i < d_.extent; ++i) {
      to[i * d_.inner] = y[static_cast<std::size_t>(i)];
    }
  }

  void collect(const float* from, Line& line) const {
    for (std::int64_t i = 0; i < d_.extent; ++i) {
      line[static_cast<std::size_t>(i)] = from[i * d_.inner];
    }
  }

  RowFunction function_;
  ops::AxisDims d_;
};

/// Along an axis with many elements behind it.
class SoftmaxStrips : public Kernel {
 public:
  SoftmaxStrips(StripFunction function, const ops::AxisDims& dims)
      : function_(function), d_(dims), strips_(ceilDiv(d_.inner, kSoftmaxColumns)) {}

  void run(const KernelRun& run) override {
    const float* dy = second(run);
    const std::int64_t items = d_.outer * strips_;
    const std::int64_t perTile = itemsPerTile(d_.extent * std::min(d_.inner, kSoftmaxColumns));
    run.workers.parallelFor(ceilDiv(items, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(items, (tile + 1) * perTile);
      for (std::int64_t item = tile * perTile; item < last; ++item) {
        const std::int64_t column = item % strips_ * kSoftmaxColumns;
        const std::int64_t at = item / strips_ * d_.extent * d_.inner + column;
        function_(
            {.x = run.in<float>(0) + at,
             .dy = dy == nullptr ? nullptr : dy + at,
             .y = run.out<float>(0) + at,
             .rows = d_.extent,
             .stride = d_.inner,
             .columns = static_cast<std::size_t>(std::min(kSoftmaxColumns, d_.inner - column))});
      }
    });
  }

 private:
  StripFunction function_;
  ops::AxisDims d_;
  std::int64_t strips_;
};

}  // namespace

bool supportsSoftmax(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F32;
}

std::unique_ptr<Kernel> makeSoftmax(const ir::OpView& op, const device::Choice& /*choice*/) {
  const ops::AxisDims dims = ops::axisDims(op);
  if (dims.inner == 1) {
    return std::make_unique<SoftmaxRows>(rowFunction(op.def.name), dims);
  }
  if (SoftmaxLines::suits(dims)) {
    return std::make_unique<SoftmaxLines>(rowFunction(op.def.name), dims);
  }
  return std::make_unique<SoftmaxStrips>(stripFunction(op.def.name), dims);
}

}  // namespace sluice::devices::cpu
#endif
