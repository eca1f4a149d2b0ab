// Connectionist temporal classification: the part that ctc_loss and ctc_loss_grad share. A target
// of S labels becomes 2 S + 1 states: a blank before, between and after the labels. A path goes
// through the states in order, one state per time step, and may skip a blank between different
// labels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

struct CtcDims {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t classes = 0;
  std::int64_t labels = 0;  ///< the largest number of labels of a target
};

/// Reads the extents from log-probabilities [steps, batch, classes], targets [batch, labels] and
/// the two lengths [batch]. Throws InvalidArgument if they do not match or if the blank is not a
/// class.
CtcDims ctcDims(const ir::OpView& op);

/// The log of the summed weight of all paths of one batch item, in total and through each state.
class CtcPaths {
 public:
  /// `logs` are the log-probabilities of all items.
  CtcPaths(const CtcDims& dims, std::int64_t blank, std::span<const double> logs)
      : dims_(dims), blank_(blank), logs_(logs) {}

  /// Sums the paths of an item; -infinity if there is none.
  double sum(std::int64_t item, std::int64_t steps, std::span<const std::int64_t> labels);
  /// After sum(): adds `scale` times the derivative of the log of the sum by each log-probability.
  void addSlopes(double scale, std::span<double> slopes);

 private:
  std::size_t at(std::int64_t step, std::int64_t state) const {
    return static_cast<std::size_t>(step) * classOf_.size() + static_cast<std::size_t>(state);
  }
  std::size_t logAt(std::int64_t step, std::int64_t state) const {
    return static_cast<std::size_t>((step * dims_.batch + item_) * dims_.classes +
                                    classOf_[static_cast<std::size_t>(state)]);
  }
  bool mayGo(std::int64_t from, std::int64_t to) const;

  CtcDims dims_;
  std::int64_t blank_;
  std::span<const double> logs_;
  std::int64_t item_ = 0;
  std::int64_t steps_ = 0;
  double sum_ = 0;
  std::vector<std::int64_t> classOf_;  // per state
  std::vector<double> before_;         // per step and state: paths that reach it, itself included
  std::vector<double> after_;          // per state: paths that continue from it, itself excluded
};

/// The checked lengths and labels of an item. Throws InvalidArgument.
struct CtcItem {
  std::int64_t steps = 0;
  std::vector<std::int64_t> labels;
};
std::vector<CtcItem> readCtcItems(const ir::KernelArgs& args, const CtcDims& d);

inline constexpr std::array<ir::AttrSpec, 2> kCtcAttrs = {
    {{.name = "blank", .kind = ir::AttrKind::Int},
     {.name = "zeroInfinity", .kind = ir::AttrKind::Bool}}};

}  // namespace sluice::ops
