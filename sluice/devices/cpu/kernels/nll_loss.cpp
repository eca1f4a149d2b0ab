// nll_loss and nll_loss_grad of every float type. Labels are checked and counted first, by one
// thread; then terms are summed in fixed grains, in double, and the grains in order.
#include <algorithm>

#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/labels.h"
#include "sluice/devices/cpu/kernels/moves.h"
#include "sluice/ops/elementwise.h"

namespace sluice::devices::cpu {
namespace {

/// Inputs (log-probabilities, labels); scratch holds a sum for every grain.
class NllLoss : public Kernel {
 public:
  explicit NllLoss(const ir::OpView& op)
      : dtype_(op.inputs[0].dtype), labels_(op, op.inputs[0].shape, op.inputs[1]) {}

  void run(const KernelRun& run) override {
    withIndices(labels_.dtype(), run.inputs[1], [&](const auto* labels) {
      dispatch(dtype_, [&]<class T>(T) {
        labels_.listed() ? listTerms<T>(run, labels) : addTerms<T>(run, labels);
      });
    });
  }

 private:
  template <class T, class Label>
  void listTerms(const KernelRun& run, const Label* labels) const {
    const double by = labels_.factor(labels);
    const auto terms = static_cast<std::size_t>(labels_.dims().terms());
    fillZero(run.out<std::byte>(0), terms * sizeof(T), run.workers);
    labels_.forTerms(run.workers, labels, [&](std::int64_t, std::int64_t t, std::int64_t c) {
      run.out<T>(0)[t] = ops::narrow<T>(by * valueAt<T>(run, t, c));
    });
  }

  template <class T, class Label>
  void addTerms(const KernelRun& run, const Label* labels) const {
    const double by = labels_.factor(labels);
    auto* sums = static_cast<double*>(run.scratch);
    std::fill_n(sums, labels_.grains(), 0.0);
    labels_.forTerms(run.workers, labels, [&](std::int64_t grain, std::int64_t t, std::int64_t c) {
      sums[grain] += valueAt<T>(run, t, c);
    });
    double sum = 0;
    for (std::int64_t grain = 0; grain < labels_.grains(); ++grain) {
      sum += sums[grain];
    }
    run.out<T>(0)[0] = ops::narrow<T>(by * sum);
  }

  template <class T>
  double valueAt(const KernelRun& run, std::int64_t t, std::int64_t c) const {
    return static_cast<double>(ops::widen(run.in<T>(0)[labels_.dims().at(t, c)]));
  }

  DType dtype_;
  Labels labels_;
};

/// Inputs (labels, dy).
class NllLossGrad : public Kernel {
 public:
  explicit NllLossGrad(const ir::OpView& op)
      : type_(op.outputs[0]), labels_(op, type_.shape, op.inputs[0]) {}

  void run(const KernelRun& run) override {
    withIndices(labels_.dtype(), run.inputs[0], [&](const auto* labels) {
      const double by = labels_.factor(labels);
      fillZero(run.out<std::byte>(0), type_.bytes(), run.workers);
      dispatch(type_.dtype, [&]<class T>(T) { place<T>(run, labels, by); });
    });
  }

 private:
  template <class T, class Label>
  void place(const KernelRun& run, const Label* labels, double by) const {
    labels_.forTerms(run.workers, labels, [&](std::int64_t, std::int64_t t, std::int64_t c) {
      const auto dy = static_cast<double>(ops::widen(run.in<T>(1)[labels_.listed() ? t : 0]));
      run.out<T>(0)[labels_.dims().at(t, c)] = ops::narrow<T>(by * dy);
    });
  }

  TensorType type_;
  Labels labels_;
};

}  // namespace

device::Choice chooseNllLoss(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const Labels labels(op, op.inputs[0].shape, op.inputs[1]);
  choice.scratchBytes = static_cast<std::size_t>(labels.grains()) * sizeof(double);
  return choice;
}

std::unique_ptr<Kernel> makeNllLoss(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<NllLoss>(op);
}

std::unique_ptr<Kernel> makeNllLossGrad(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<NllLossGrad>(op);
}

}  // namespace sluice::devices::cpu
