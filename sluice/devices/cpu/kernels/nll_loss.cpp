// nll_loss and nll_loss_grad of every float type. Labels are checked and counted first, by one
// thread; then terms are summed in fixed grains, in double, and the grains in order.
#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/moves.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss.h"

namespace sluice::devices::cpu {
namespace {

/// Terms whose sum is one partial.
constexpr std::int64_t kGrain = 2048;

/// What both ops know of their labels.
class NllKernel : public device::Kernel {
 protected:
  NllKernel(const ir::OpView& op, const TensorType& probabilities, const TensorType& labels)
      : name_(op.def.name),
        dtype_(probabilities.dtype),
        labelType_(labels.dtype),
        d_(ops::nllDims(op, probabilities.shape, labels)),
        reduction_(ops::reductionOf(op)),
        ignore_(op.integer("ignoreIndex")) {}

  /// What a term is multiplied by. Throws InvalidArgument for labels that are out of range.
  template <class Label>
  double factor(const Label* labels) const {
    std::int64_t counted = 0;
    for (std::int64_t t = 0; t < d_.terms(); ++t) {
      const auto label = static_cast<std::int64_t>(labels[t]);
      if (label == ignore_) {
        continue;
      }
      if (label < 0 || label >= d_.classes) {
        raise<InvalidArgument>(
            "{}: label {} is out of range for {} classes", name_, label, d_.classes);
      }
      ++counted;
    }
    return reduction_ == ops::Reduction::Mean
               ? -1.0 / static_cast<double>(std::max<std::int64_t>(counted, 1))
               : -1.0;
  }

  /// Calls f(grain, term, class) for all terms that are not ignored, those of a grain in order.
  template <class Label, class F>
  void forTerms(const device::KernelRun& run, const Label* labels, const F& f) const {
    run.workers.parallelFor(grains(d_), [&](std::int64_t grain) {
      const std::int64_t last = std::min(d_.terms(), (grain + 1) * kGrain);
      for (std::int64_t t = grain * kGrain; t < last; ++t) {
        const auto label = static_cast<std::int64_t>(labels[t]);
        if (label != ignore_) {
          f(grain, t, label);
        }
      }
    });
  }

  std::string_view name_;
  DType dtype_;
  DType labelType_;
  ops::NllDims d_;
  ops::Reduction reduction_;
  std::int64_t ignore_;

 public:
  static std::int64_t grains(const ops::NllDims& d) { return ceilDiv(d.terms(), kGrain); }
};

/// Inputs (log-probabilities, labels); scratch holds a sum for every grain.
class NllLoss : public NllKernel {
 public:
  explicit NllLoss(const ir::OpView& op) : NllKernel(op, op.inputs[0], op.inputs[1]) {}

  void run(const device::KernelRun& run) override {
    withIndices(labelType_, run.inputs[1], [&](const auto* labels) {
      dispatch(dtype_, [&]<class T>(T) {
        reduction_ == ops::Reduction::None ? listTerms<T>(run, labels) : addTerms<T>(run, labels);
      });
    });
  }

 private:
  template <class T, class Label>
  void listTerms(const device::KernelRun& run, const Label* labels) const {
    const double by = factor(labels);
    fillZero(run.out<std::byte>(0), static_cast<std::size_t>(d_.terms()) * sizeof(T), run.workers);
    forTerms(run, labels, [&](std::int64_t, std::int64_t t, std::int64_t c) {
      run.out<T>(0)[t] = ops::narrow<T>(by * valueAt<T>(run, t, c));
    });
  }

  template <class T, class Label>
  void addTerms(const device::KernelRun& run, const Label* labels) const {
    const double by = factor(labels);
    auto* sums = static_cast<double*>(run.scratch);
    std::fill_n(sums, grains(d_), 0.0);
    forTerms(run, labels, [&](std::int64_t grain, std::int64_t t, std::int64_t c) {
      sums[grain] += valueAt<T>(run, t, c);
    });
    double sum = 0;
    for (std::int64_t grain = 0; grain < grains(d_); ++grain) {
      sum += sums[grain];
    }
    run.out<T>(0)[0] = ops::narrow<T>(by * sum);
  }

  template <class T>
  double valueAt(const device::KernelRun& run, std::int64_t t, std::int64_t c) const {
    return static_cast<double>(ops::widen(run.in<T>(0)[d_.at(t, c)]));
  }
};

/// Inputs (labels, dy).
class NllLossGrad : public NllKernel {
 public:
  explicit NllLossGrad(const ir::OpView& op) : NllKernel(op, op.outputs[0], op.inputs[0]) {}

  void run(const device::KernelRun& run) override {
    const auto elements = static_cast<std::size_t>(d_.terms() * d_.classes);
    withIndices(labelType_, run.inputs[0], [&](const auto* labels) {
      const double by = factor(labels);
      fillZero(run.out<std::byte>(0), elements * byteSize(dtype_), run.workers);
      dispatch(dtype_, [&]<class T>(T) {
        forTerms(run, labels, [&](std::int64_t, std::int64_t t, std::int64_t c) {
          const T dy = run.in<T>(1)[reduction_ == ops::Reduction::None ? t : 0];
          run.out<T>(0)[d_.at(t, c)] = ops::narrow<T>(by * static_cast<double>(ops::widen(dy)));
        });
      });
    });
  }
};

}  // namespace

device::Choice chooseNllLoss(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const ops::NllDims d = ops::nllDims(op, op.inputs[0].shape, op.inputs[1]);
  choice.scratchBytes = static_cast<std::size_t>(ceilDiv(d.terms(), kGrain)) * sizeof(double);
  return choice;
}

std::unique_ptr<device::Kernel> makeNllLoss(const ir::OpView& op,
                                            const device::Choice& /*choice*/) {
  return std::make_unique<NllLoss>(op);
}

std::unique_ptr<device::Kernel> makeNllLossGrad(const ir::OpView& op,
                                                const device::Choice& /*choice*/) {
  return std::make_unique<NllLossGrad>(op);
}

}  // namespace sluice::devices::cpu
