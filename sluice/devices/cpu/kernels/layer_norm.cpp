// layer_norm, rms_norm and their gradients of float32. Statistics and row sums are one thread's
// work; the gradients of gamma and beta are summed over grains of rows, then in grain order.
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

float reciprocalRoot(double squares, const NormShape& shape) {
  const double count = std::max(1.0, static_cast<double>(shape.columns));
  return static_cast<float>(1.0 / std::sqrt(squares / count + shape.epsilon));
}

}  // namespace

void layerNormRow(const NormShape& shape, const device::KernelRun& run, std::int64_t row) {
  const FloatTag d;
  const auto n = static_cast<std::size_t>(shape.columns);
  const float* x = run.in<float>(0) + row * shape.columns;
  const float* gamma = run.in<float>(1);
  const float* beta = run.in<float>(2);
  float* y = run.out<float>(0) + row * shape.columns;
  const double sum = sumRow(n, [&](auto load, std::size_t i) HWY_ATTR { return load(x + i); });
  const auto mean = static_cast<float>(sum / std::max(1.0, static_cast<double>(n)));
  const FloatVec centre = hn::Set(d, mean);
  const double squares = sumRow(n, [&](auto load, std::size_t i) HWY_ATTR {
    const FloatVec v = hn::Sub(load(x + i), centre);
    return hn::Mul(v, v);
  });
  const float rstd = reciprocalRoot(squares, shape);
  const FloatVec scale = hn::Set(d, rstd);
  mapRow(n, y, [&](auto load, std::size_t i) HWY_ATTR {
    const FloatVec hat = hn::Mul(hn::Sub(load(x + i), centre), scale);
    return hn::Add(hn::Mul(hat, load(gamma + i)), load(beta + i));
  });
  run.out<float>(1)[row] = mean;
  run.out<float>(2)[row] = rstd;
}

void rmsNormRow(const NormShape& shape, const device::KernelRun& run, std::int64_t row) {
  const auto n = static_cast<std::size_t>(shape.columns);
  const float* x = run.in<float>(0) + row * shape.columns;
  const float* gamma = run.in<float>(1);
  float* y = run.out<float>(0) + row * shape.columns;
  const double squares = sumRow(n, [&](auto load, std::size_t i) HWY_ATTR {
    const FloatVec v = load(x + i);
    return hn::Mul(v, v);
  });
  const float rrms = reciprocalRoot(squares, shape);
  const FloatVec scale = hn::Set(FloatTag(), rrms);
  mapRow(n, y, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Mul(hn::Mul(load(x + i), scale), load(gamma + i));
  });
  run.out<float>(1)[row] = rrms;
}

/// dx of one row; adds its terms to dgamma and dbeta.
void normGradRow(const NormGradRow& row, std::int64_t columns) {
  const FloatTag d;
  const auto n = static_cast<std::size_t>(columns);
  const float* x = row.x;
  const float* dy = row.dy;
  const float* gamma = row.gamma;
  float* dgamma = row.dgamma;
  float* dbeta = row.dbeta;
  const FloatVec mean = hn::Set(d, row.mean);
  const FloatVec rstd = hn::Set(d, row.rstd);
  const auto hat = [&](auto load, std::size_t i)
                       HWY_ATTR { return hn::Mul(hn::Sub(load(x + i), mean), rstd); };
  const double count = std::max(1.0, static_cast<double>(n));
  const double sumHat = sumRow(n, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Mul(hn::Mul(load(dy + i), load(gamma + i)), hat(load, i));
  });
  double sum = 0;
  if (dbeta != nullptr) {
    sum = sumRow(n, [&](auto load, std::size_t i) HWY_ATTR {
      return hn::Mul(load(dy + i), load(gamma + i));
    });
    mapRow(n, dbeta, [&](auto load, std::size_t i) HWY_ATTR {
      return hn::Add(load(dbeta + i), load(dy + i));
    });
  }
  mapRow(n, dgamma, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Add(load(dgamma + i), hn::Mul(load(dy + i), hat(load, i)));
  });
  const FloatVec shift = hn::Set(d, static_cast<float>(sum / count));
  const FloatVec slope = hn::Set(d, static_cast<float>(sumHat / count));
  mapRow(n, row.dx, [&](auto load, std::size_t i) HWY_ATTR {
    const FloatVec own = hn::Sub(hn::Mul(load(dy + i), load(gamma + i)), shift);
    return hn::Mul(rstd, hn::Sub(own, hn::Mul(hat(load, i), slope)));
  });
}

/// to[c] = sum of `count` rows of partial sums.
void addPartials(const float* partials, std::int64_t count, std::int64_t stride, float* to) {
  for (std::int64_t first = 0; first < stride; first += static_cast<std::int64_t>(kMaxColumns)) {
    const auto columns =
        static_cast<std::size_t>(std::min(stride - first, static_cast<std::int64_t>(kMaxColumns)));
    foldColumns<SumFold>(
        {0, count},
        columns,
        to + first,
        [&](std::int64_t r) { return partials + r * stride + first; },
        [](auto load, const float* row, std::size_t c) HWY_ATTR { return load(row + c); });
  }
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/ops/norm.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(layerNormRow);
HWY_EXPORT(rmsNormRow);
HWY_EXPORT(normGradRow);
HWY_EXPORT(addPartials);

bool isRms(const ir::OpView& op) {
  return op.def.name.starts_with("rms");
}

NormShape shapeOf(const ir::OpView& op) {
  const ops::RowDims d = ops::rowDims(op);
  const bool forward = op.attrs.find("epsilon") != nullptr;
  return {d.rows, d.columns, forward ? ops::epsilonOf(op) : 0.0};
}

class Norm : public device::Kernel {
 public:
  explicit Norm(const ir::OpView& op)
      : shape_(shapeOf(op)),
        row_(isRms(op) ? HWY_DYNAMIC_DISPATCH(rmsNormRow) : HWY_DYNAMIC_DISPATCH(layerNormRow)) {}

  void run(const device::KernelRun& run) override {
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
  void (*row_)(const NormShape&, const device::KernelRun&, std::int64_t);
};

std::int64_t grainsOf(const NormShape& shape) {
  return ceilDiv(shape.rows, rowsPerGrain(shape.rows, shape.columns));
}

/// Inputs (x, gamma, [mean,] rstd, dy), outputs (dx, dgamma[, dbeta]); scratch holds the partial
/// sums of dgamma for every grain, then those of dbeta.
class NormGrad : public device::Kernel {
 public:
  explicit NormGrad(const ir::OpView& op) : shape_(shapeOf(op)), rms_(isRms(op)) {}

  void run(const device::KernelRun& run) override {
    const std::int64_t perGrain = rowsPerGrain(shape_.rows, shape_.columns);
    const std::int64_t grains = grainsOf(shape_);
    auto* dgamma = static_cast<float*>(run.scratch);
    float* dbeta = dgamma + grains * shape_.columns;
    run.workers.parallelFor(grains, [&](std::int64_t grain) {
      const std::int64_t at = grain * shape_.columns;
      std::fill_n(dgamma + at, shape_.columns, 0.0F);
      if (!rms_) {
        std::fill_n(dbeta + at, shape_.columns, 0.0F);
      }
      const std::int64_t last = std::min(shape_.rows, (grain + 1) * perGrain);
      for (std::int64_t row = grain * perGrain; row < last; ++row) {
        HWY_DYNAMIC_DISPATCH(normGradRow)
        (rowOf(run, row, dgamma + at, rms_ ? nullptr : dbeta + at), shape_.columns);
      }
    });
    HWY_DYNAMIC_DISPATCH(addPartials)(dgamma, grains, shape_.columns, run.out<float>(1));
    if (!rms_) {
      HWY_DYNAMIC_DISPATCH(addPartials)(dbeta, grains, shape_.columns, run.out<float>(2));
    }
  }

 private:
  NormGradRow rowOf(const device::KernelRun& run,
                    std::int64_t row,
                    float* dgamma,
                    float* dbeta) const {
    const std::int64_t at = row * shape_.columns;
    return {.x = run.in<float>(0) + at,
            .gamma = run.in<float>(1),
            .dy = run.in<float>(rms_ ? 3 : 4) + at,
            .mean = rms_ ? 0.0F : run.in<float>(2)[row],
            .rstd = run.in<float>(rms_ ? 2 : 3)[row],
            .dx = run.out<float>(0) + at,
            .dgamma = dgamma,
            .dbeta = dbeta};
  }

  NormShape shape_;
  bool rms_;
};

}  // namespace

bool supportsLayerNorm(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F32;
}

std::unique_ptr<device::Kernel> makeLayerNorm(const ir::OpView& op,
                                              const device::Choice& /*choice*/) {
  return std::make_unique<Norm>(op);
}

device::Choice chooseLayerNormGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const NormShape shape = shapeOf(op);
  choice.scratchBytes =
      static_cast<std::size_t>(grainsOf(shape) * shape.columns) * sizeof(float) * 2;
  return choice;
}

std::unique_ptr<device::Kernel> makeLayerNormGrad(const ir::OpView& op,
                                                  const device::Choice& /*choice*/) {
  return std::make_unique<NormGrad>(op);
}

}  // namespace sluice::devices::cpu
#endif
