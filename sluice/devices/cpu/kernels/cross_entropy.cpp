// cross_entropy and cross_entropy_grad of float32 over many classes: a row of scores is read, and
// its gradient written, while it is in cache; nothing of the size of the scores is kept between.
#include <cmath>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/labels.h"
#include "sluice/devices/cpu/kernels/moves.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/cross_entropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"
#include "sluice/devices/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {

/// log(sum(exp(x)))
double logSumExpRow(const float* x, std::size_t n) {
  const FloatTag d;
  const double top =
      foldRow<MaxFold>(n, [x](auto load, std::size_t i) HWY_ATTR { return load(x + i); });
  const FloatVec shift = hn::Set(d, static_cast<float>(top));
  const double sum = sumRow(
      n, [&](auto load, std::size_t i) HWY_ATTR { return Exp(d, hn::Sub(load(x + i), shift)); });
  return top + std::log(sum);
}

double sumOfRow(const float* x, std::size_t n) {
  return sumRow(n, [x](auto load, std::size_t i) HWY_ATTR { return load(x + i); });
}

/// dx = exp(x - logSum) * factor - shift
void crossEntropySlopes(
    const float* x, float logSum, float factor, float shift, float* dx, std::size_t n) {
  const FloatTag d;
  const FloatVec sum = hn::Set(d, logSum);
  const FloatVec by = hn::Set(d, factor);
  const FloatVec less = hn::Set(d, shift);
  mapRow(n, dx, [&](auto load, std::size_t i) HWY_ATTR {
    return hn::Sub(hn::Mul(Exp(d, hn::Sub(load(x + i), sum)), by), less);
  });
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/ops/cross_entropy.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(logSumExpRow);
HWY_EXPORT(sumOfRow);
HWY_EXPORT(crossEntropySlopes);

/// Fewer classes stay in cache from part to part.
constexpr std::int64_t kManyClasses = 1024;

/// Rows of scores with their labels; both ops begin with these two operands.
class ScoredRows {
 public:
  explicit ScoredRows(const ir::OpView& op)
      : labels_(op, op.inputs[0].shape, op.inputs[1]), smoothing_(ops::smoothingOf(op)) {}

  const Labels& labels() const { return labels_; }
  std::int64_t rows() const { return labels_.dims().terms(); }
  std::int64_t columns() const { return labels_.dims().classes; }
  double smoothing() const { return smoothing_; }
  double share() const { return smoothing_ / static_cast<double>(columns()); }

  /// f(row, its label or -1)
  template <class Label, class F>
  void forRows(Workers& workers, const Label* labels, const F& f) const {
    const std::int64_t perTile = itemsPerTile(columns());
    workers.parallelFor(ceilDiv(rows(), perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(rows(), (tile + 1) * perTile);
      for (std::int64_t row = tile * perTile; row < last; ++row) {
        const auto label = static_cast<std::int64_t>(labels[row]);
        f(row, labels_.isIgnored(label) ? -1 : label);
      }
    });
  }

 private:
  Labels labels_;
  double smoothing_;
};

/// Scratch holds the terms, which are added in order.
class CrossEntropy : public Kernel {
 public:
  explicit CrossEntropy(const ir::OpView& op) : rows_(op) {}

  void run(const KernelRun& run) override {
    withIndices(rows_.labels().dtype(), run.inputs[1], [&](const auto* labels) {
      const double by = rows_.labels().factor(labels);
      auto* terms = static_cast<double*>(run.scratch);
      rows_.forRows(run.workers, labels, [&](std::int64_t row, std::int64_t label) {
        terms[row] = termOf(run, row, label);
      });
      if (rows_.labels().listed()) {
        std::transform(terms, terms + rows_.rows(), run.out<float>(0), [](double term) {
          return static_cast<float>(term);
        });
        return;
      }
      double sum = 0;
      for (std::int64_t row = 0; row < rows_.rows(); ++row) {
        sum += terms[row];
      }
      run.out<float>(0)[0] = static_cast<float>(-by * sum);
    });
  }

 private:
  double termOf(const KernelRun& run, std::int64_t row, std::int64_t label) const {
    const float* x = run.in<float>(0) + row * rows_.columns();
    const auto n = static_cast<std::size_t>(rows_.columns());
    const double logSum = HWY_DYNAMIC_DISPATCH(logSumExpRow)(x, n);
    run.out<float>(1)[row] = static_cast<float>(logSum);
    if (label < 0) {
      return 0;
    }
    double expected = (1.0 - rows_.smoothing()) * static_cast<double>(x[label]);
    if (rows_.smoothing() > 0) {
      expected += rows_.share() * HWY_DYNAMIC_DISPATCH(sumOfRow)(x, n);
    }
    return logSum - expected;
  }

  ScoredRows rows_;
};

class CrossEntropyGrad : public Kernel {
 public:
  explicit CrossEntropyGrad(const ir::OpView& op) : rows_(op) {}

  void run(const KernelRun& run) override {
    withIndices(rows_.labels().dtype(), run.inputs[1], [&](const auto* labels) {
      const double by = -rows_.labels().factor(labels);
      const auto slopes = HWY_DYNAMIC_DISPATCH(crossEntropySlopes);
      rows_.forRows(run.workers, labels, [&](std::int64_t row, std::int64_t label) {
        float* dx = run.out<float>(0) + row * rows_.columns();
        if (label < 0) {
          std::fill_n(dx, rows_.columns(), 0.0F);
          return;
        }
        const double slope =
            by * static_cast<double>(run.in<float>(3)[rows_.labels().listed() ? row : 0]);
        slopes(run.in<float>(0) + row * rows_.columns(),
               run.in<float>(2)[row],
               static_cast<float>(slope),
               static_cast<float>(slope * rows_.share()),
               dx,
               static_cast<std::size_t>(rows_.columns()));
        dx[label] -= static_cast<float>(slope * (1.0 - rows_.smoothing()));
      });
    });
  }

 private:
  ScoredRows rows_;
};

}  // namespace

bool supportsCrossEntropy(const ir::OpView& op) {
  if (op.inputs[0].dtype != DType::F32) {
    return false;
  }
  const ops::NllDims d = ops::nllDims(op, op.inputs[0].shape, op.inputs[1]);
  return d.positions == 1 && d.batch > 0 && d.classes >= kManyClasses;
}

device::Choice chooseCrossEntropy(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  choice.scratchBytes = static_cast<std::size_t>(op.inputs[0].shape[0]) * sizeof(double);
  return choice;
}

std::unique_ptr<Kernel> makeCrossEntropy(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<CrossEntropy>(op);
}

std::unique_ptr<Kernel> makeCrossEntropyGrad(const ir::OpView& op,
                                             const device::Choice& /*choice*/) {
  return std::make_unique<CrossEntropyGrad>(op);
}

}  // namespace sluice::devices::cpu
#endif
