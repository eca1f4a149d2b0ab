// The labels of nll_loss, cross_entropy and their gradients. They are checked and counted before
// the terms are computed, by one thread.
#pragma once

#include <algorithm>
#include <string_view>

#include "sluice/base/error.h"
#include "sluice/base/workers.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/ops/loss.h"

namespace sluice::devices::cpu {

/// Terms whose sum is one partial.
inline constexpr std::int64_t kTermsPerGrain = 2048;

/// The labels of a loss over classes: which terms count, and for how much.
class Labels {
 public:
  Labels(const ir::OpView& op, const Shape& probabilities, const TensorType& labels)
      : name_(op.def.name),
        dtype_(labels.dtype),
        dims_(ops::nllDims(op, probabilities, labels)),
        reduction_(ops::reductionOf(op)),
        ignore_(op.integer("ignoreIndex")) {}

  DType dtype() const { return dtype_; }
  const ops::NllDims& dims() const { return dims_; }
  bool isIgnored(std::int64_t label) const { return label == ignore_; }
  bool listed() const { return reduction_ == ops::Reduction::None; }
  std::int64_t grains() const { return ceilDiv(dims_.terms(), kTermsPerGrain); }

  /// What a term is multiplied by: minus infinity for the mean of no terms, whose sum of 0 becomes
  /// a NaN. Throws InvalidArgument for labels that are out of range.
  template <class Label>
  double factor(const Label* labels) const {
    std::int64_t counted = 0;
    for (std::int64_t t = 0; t < dims_.terms(); ++t) {
      const auto label = static_cast<std::int64_t>(labels[t]);
      if (label == ignore_) {
        continue;
      }
      if (label < 0 || label >= dims_.classes) {
        raise<InvalidArgument>(
            "{}: label {} is out of range for {} classes", name_, label, dims_.classes);
      }
      ++counted;
    }
    return reduction_ == ops::Reduction::Mean ? -1.0 / static_cast<double>(counted) : -1.0;
  }

  /// Calls f(grain, term, class) for all terms that are not ignored, those of a grain in order.
  template <class Label, class F>
  void forTerms(Workers& workers, const Label* labels, const F& f) const {
    workers.parallelFor(grains(), [&](std::int64_t grain) {
      const std::int64_t last = std::min(dims_.terms(), (grain + 1) * kTermsPerGrain);
      for (std::int64_t t = grain * kTermsPerGrain; t < last; ++t) {
        const auto label = static_cast<std::int64_t>(labels[t]);
        if (label != ignore_) {
          f(grain, t, label);
        }
      }
    });
  }

 private:
  std::string_view name_;
  DType dtype_;
  ops::NllDims dims_;
  ops::Reduction reduction_;
  std::int64_t ignore_;
};

}  // namespace sluice::devices::cpu
