// layer_norm, rms_norm and their gradients of float32 and float64. Statistics and row sums are one
// thread's work; the gradients of gamma and beta are summed over grains of rows, then in grain
// order.
#include "sluice/devices/cpu/kernels/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

template <class T>
T reciprocalRoot(double squares, const NormShape& shape) {
  const double count = std::max(1.0, static_cast<double>(shape.columns));
  return static_cast<T>(1.0 / std::sqrt(squares / count + shape.epsilon));
}

template <class T>
void layerNormRow(const NormShape& shape, const KernelRun& run, std::int64_t row) {
  const LaneTag<T> d;
  const auto n = static_cast<std::size_t>(shape.columns);
  const T* x = run.in<T>(0) + row * shape.columns;
  const T* gamma = run.in<T>(1);
  const T* beta = run.in<T>(2);
  T* y = run.out<T>(0) + row * shape.columns;
  const double sum = sumRow<T>(n, [&](auto load, std::size_t i) HWY_ATTR { return load(x + i); });
  const auto mean = static_cast<T>(sum / std::max(1.0, static_cast<double>(n)));
  const auto centre = hn::Set(d, mean);
  const double squares = sumRow<T>(n, [&](auto load, std::size_t i) HWY_ATTR {
    const auto v = hn::Sub(load(x + i), centre);
    return hn::Mul(v, v);
  });
  const T rstd = reciprocalRoot<T>(squares, shape);
  const auto scale = hn::Set(d, rstd);
  mapRow(n, y, [&](auto load, std::size_t i) HWY_ATTR {
    const auto hat = hn::Mul(hn::Sub(load(x + i), centre), scale);
    return hn::Add(hn::Mul(hat, load(gamma + i)), load(beta + i));
  });
  run.out<T>(1)[row] = mean;
  run.out<T>(2)[row] = rstd;
}

template <class T>
void rmsNormRow(const NormShape& shape, const KernelRun& run, std::int64_t row) {
  const auto n = static_cast<std::size_t>(shape.columns);
  const T* x = run.in<T>(0) + row * shape.columns;
  const T* gamma = run.in<T>(1);
  T* y = run.out<T>(0) + row * shape.columns;
  const double squares = sumRow<T>(n, [&](auto load, std::size_t i) HWY_ATTR {
    const auto v = load(x + i);
    return hn::Mul(v, v);
  });
  const T rrms = reciprocalRoot<T>(squares, shape);
  const auto scale = hn::Set(LaneTag<T>(), rrms);
  mapRow(n, y, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Mul(hn::Mul(load(x + i), scale), load(gamma + i));
  });
  run.out<T>(1)[row] = rrms;
}

/// dx of one row; adds its terms to dgamma and dbeta.
template <class T>
void normGradRow(const NormGradRow<T>& row, std::int64_t columns) {
  const LaneTag<T> d;
  const auto n = static_cast<std::size_t>(columns);
  const T* x = row.x;
  const T* dy = row.dy;
  const T* gamma = row.gamma;
  T* dgamma = row.dgamma;
  T* dbeta = row.dbeta;
  const auto mean = hn::Set(d, row.mean);
  const auto rstd = hn::Set(d, row.rstd);
  const auto hat = [&](auto load, std::size_t i)
                       HWY_ATTR { return hn::Mul(hn::Sub(load(x + i), mean), rstd); };
  const double count = std::max(1.0, static_cast<double>(n));
  const double sumHat = sumRow<T>(n, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Mul(hn::Mul(load(dy + i), load(gamma + i)), hat(load, i));
  });
  double sum = 0;
  if (dbeta != nullptr) {
    sum = sumRow<T>(n, [&](auto load, std::size_t i) HWY_ATTR {
      return hn::Mul(load(dy + i), load(gamma + i));
    });
    mapRow(n, dbeta, [&](auto load, std::size_t i) HWY_ATTR {
      return hn::Add(load(dbeta + i), load(dy + i));
    });
  }
  mapRow(n, dgamma, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Add(load(dgamma + i), hn::Mul(load(dy + i), hat(load, i)));
  });
  const auto shift = hn::Set(d, static_cast<T>(sum / count));
  const auto slope = hn::Set(d, static_cast<T>(sumHat / count));
  mapRow(n, row.dx, [&](auto load, std::size_t i) HWY_ATTR {
    const auto own = hn::Sub(hn::Mul(load(dy + i), load(gamma + i)), shift);
    return hn::Mul(rstd, hn::Sub(own, hn::Mul(hat(load, i), slope)));
  });
}

template <class T>
void addPartials(const T* partials, std::int64_t count, std::int64_t stride, T* to) {
  for (std::int64_t first = 0; first < stride; first += static_cast<std::int64_t>(kMaxColumns)) {
    const auto columns =
        static_cast<std::size_t>(std::min(stride - first, static_cast<std::int64_t>(kMaxColumns)));
    foldColumns<SumFold>(
        {0, count},
        columns,
        to + first,
        [&](std::int64_t r) { return partials + r * stride + first; },
        [](auto load, const T* row, std::size_t c) HWY_ATTR { return load(row + c); });
  }
}

template <class T>
NormLoops<T> loopsOf() {
  return {layerNormRow<T>, rmsNormRow<T>, normGradRow<T>, addPartials<T>};
}

}  // namespace

NormLoops<float> floatNormLoops() {
  return loopsOf<float>();
}
NormLoops<double> doubleNormLoops() {
  return loopsOf<double>();
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/ops/norm.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(floatNormLoops);
HWY_EXPORT(doubleNormLoops);

template <class T>
NormLoops<T> normLoops() {
  if constexpr (std::is_same_v<T, double>) {
    return HWY_DYNAMIC_DISPATCH(doubleNormLoops)();
  } else {
    return HWY_DYNAMIC_DISPATCH(floatNormLoops)();
  }
}

bool isRms(const ir::OpView& op) {
  return op.def.name.starts_with("rms");
}

NormShape shapeOf(const ir::OpView& op) {
  const ops::RowDims d = ops::rowDims(op);
  const bool forward = op.attrs.find("epsilon") != nullptr;
  return {d.rows, d.columns, forward ? ops::epsilonOf(op) : 0.0};
}

template <class T>
class Norm : public Kernel {
 public:
  explicit Norm(const ir::OpView& op)
      : shape_(shapeOf(op)),
        row_(isRms(op) ? normLoops<T>().rmsNormRow : normLoops<T>().layerNormRow) {}

  void run(const KernelRun& run) override {
    const std::int64_t perTile = itemsPerTile(shape_.columns);
    run.workers.parallelFor(ceilDiv(shape_.rows, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(shape_.rows, (tile + 1) * perTile);
      for (std::int64_t row = tile * perTile; row < last; ++row) {
        row_(shape_, run, row);
      }
    });
  }

 private:
  NormShape shape_;
  void (*row_)(const NormShape&, const KernelRun&, std::int64_t);
};

std::int64_t grainsOf(const NormShape& shape) {
  return ceilDiv(shape.rows, rowsPerGrain(shape.rows, shape.columns));
}

/// Inputs (x, gamma, [mean,] rstd, dy), outputs (dx, dgamma[, dbeta]); scratch holds the partial
/// sums of dgamma for every grain, then those of dbeta.
template <class T>
class NormGrad : public Kernel {
 public:
  explicit NormGrad(const ir::OpView& op) : shape_(shapeOf(op)), rms_(isRms(op)) {}

  void run(const KernelRun& run) override {
    const std::int64_t perGrain = rowsPerGrain(shape_.rows, shape_.columns);
    const std::int64_t grains = grainsOf(shape_);
    auto* dgamma = static_cast<T*>(run.scratch);
    T* dbeta = dgamma + grains * shape_.columns;
    run.workers.parallelFor(grains, [&](std::int64_t grain) {
      const std::int64_t at = grain * shape_.columns;
      std::fill_n(dgamma + at, shape_.columns, T{});
      if (!rms_) {
        std::fill_n(dbeta + at, shape_.columns, T{});
      }
      const std::int64_t last = std::min(shape_.rows, (grain + 1) * perGrain);
      for (std::int64_t row = grain * perGrain; row < last; ++row) {
        loops_.normGradRow(rowOf(run, row, dgamma + at, rms_ ? nullptr : dbeta + at),
                           shape_.columns);
      }
    });
    loops_.addPartials(dgamma, grains, shape_.columns, run.out<T>(1));
    if (!rms_) {
      loops_.addPartials(dbeta, grains, shape_.columns, run.out<T>(2));
    }
  }

 private:
  NormGradRow<T> rowOf(const KernelRun& run, std::int64_t row, T* dgamma, T* dbeta) const {
    const std::int64_t at = row * shape_.columns;
    return {.x = run.in<T>(0) + at,
            .gamma = run.in<T>(1),
            .dy = run.in<T>(rms_ ? 3 : 4) + at,
            .mean = rms_ ? T{} : run.in<T>(2)[row],
            .rstd = run.in<T>(rms_ ? 2 : 3)[row],
            .dx = run.out<T>(0) + at,
            .dgamma = dgamma,
            .dbeta = dbeta};
  }

  NormShape shape_;
  bool rms_;
  NormLoops<T> loops_ = normLoops<T>();
};

}  // namespace

bool supportsLayerNorm(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F32 || op.inputs[0].dtype == DType::F64;
}

std::unique_ptr<Kernel> makeLayerNorm(const ir::OpView& op, const device::Choice& /*choice*/) {
  if (op.inputs[0].dtype == DType::F64) {
    return std::make_unique<Norm<double>>(op);
  }
  return std::make_unique<Norm<float>>(op);
}

device::Choice chooseLayerNormGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const NormShape shape = shapeOf(op);
  choice.scratchBytes =
      static_cast<std::size_t>(grainsOf(shape) * shape.columns) * byteSize(op.inputs[0].dtype) * 2;
  return choice;
}

std::unique_ptr<Kernel> makeLayerNormGrad(const ir::OpView& op, const device::Choice& /*choice*/) {
  if (op.inputs[0].dtype == DType::F64) {
    return std::make_unique<NormGrad<double>>(op);
  }
  return std::make_unique<NormGrad<float>>(op);
}

}  // namespace sluice::devices::cpu
#endif
