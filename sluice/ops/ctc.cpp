#include "sluice/ops/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

double logSum(double x, double y) {
  const double top = std::max(x, y);
  return top == kNone ? kNone : top + std::log1p(std::exp(std::min(x, y) - top));
}

void requireInts(const ir::OpView& op, std::size_t i, std::string_view what, const Shape& shape) {
  const TensorType& type = op.inputs[i];
  if ((type.dtype != DType::I32 && type.dtype != DType::I64) || type.shape != shape) {
    raise<InvalidArgument>(
        "{}: {} must be i32 or i64 {}, got {}", op.def.name, what, shape.str(), type.str());
  }
}

std::vector<std::int64_t> readInts(const ir::KernelArgs& args, std::size_t i) {
  if (args.op.inputs[i].dtype == DType::I32) {
    const auto data = args.in<std::int32_t>(i);
    return {data.begin(), data.end()};
  }
  const auto data = args.in<std::int64_t>(i);
  return {data.begin(), data.end()};
}

void requireUpTo(const ir::OpView& op, std::string_view what, std::int64_t n, std::int64_t most) {
  if (n < 0 || n > most) {
    raise<InvalidArgument>("{}: {} {} is out of range, 0 to {}", op.def.name, what, n, most);
  }
}

}  // namespace

CtcDims ctcDims(const ir::OpView& op) {
  const Shape& logs = op.inputs[0].shape;
  const Shape& targets = op.inputs[1].shape;
  if (logs.rank() != 3 || targets.rank() != 2) {
    raise<InvalidArgument>(
        "{}: expected [steps, batch, classes] and targets [batch, labels], got "
        "{} and {}",
        op.def.name,
        logs.str(),
        targets.str());
  }
  const CtcDims d{.steps = logs[0], .batch = logs[1], .classes = logs[2], .labels = targets[1]};
  requireInts(op, 1, "targets", Shape{d.batch, d.labels});
  requireInts(op, 2, "input lengths", Shape{d.batch});
  requireInts(op, 3, "target lengths", Shape{d.batch});
  requireUpTo(op, "blank", op.integer("blank"), d.classes - 1);
  return d;
}

std::vector<CtcItem> readCtcItems(const ir::KernelArgs& args, const CtcDims& d) {
  const std::vector<std::int64_t> targets = readInts(args, 1);
  const std::vector<std::int64_t> steps = readInts(args, 2);
  const std::vector<std::int64_t> counts = readInts(args, 3);
  std::vector<CtcItem> items(steps.size());
  for (std::size_t n = 0; n < items.size(); ++n) {
    requireUpTo(args.op, "input length", steps[n], d.steps);
    requireUpTo(args.op, "target length", counts[n], d.labels);
    const auto first =
        targets.begin() + static_cast<std::ptrdiff_t>(n) * static_cast<std::ptrdiff_t>(d.labels);
    items[n] = {.steps = steps[n],
                .labels = {first, first + static_cast<std::ptrdiff_t>(counts[n])}};
    for (const std::int64_t label : items[n].labels) {
      requireUpTo(args.op, "label", label, d.classes - 1);
    }
  }
  return items;
}

bool CtcPaths::mayGo(std::int64_t from, std::int64_t to) const {
  const std::int64_t step = to - from;
  const auto classAt = [&](std::int64_t s) { return classOf_[static_cast<std::size_t>(s)]; };
  return step < 2 || (to % 2 == 1 && classAt(to) != classAt(from));
}

double CtcPaths::sum(std::int64_t item, std::int64_t steps, std::span<const std::int64_t> labels) {
  item_ = item;
  steps_ = steps;
  classOf_.assign(2 * labels.size() + 1, blank_);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    classOf_[2 * i + 1] = labels[i];
  }
  const auto states = static_cast<std::int64_t>(classOf_.size());
  if (steps == 0) {
    return sum_ = labels.empty() ? 0.0 : kNone;
  }
  before_.assign(static_cast<std::size_t>(steps) * classOf_.size(), kNone);
  for (std::int64_t s = 0; s < std::min<std::int64_t>(states, 2); ++s) {
    before_[at(0, s)] = logs_[logAt(0, s)];
  }
  for (std::int64_t t = 1; t < steps; ++t) {
    for (std::int64_t s = 0; s < states; ++s) {
      double reached = kNone;
      for (std::int64_t from = std::max<std::int64_t>(s - 2, 0); from <= s; ++from) {
        reached = mayGo(from, s) ? logSum(reached, before_[at(t - 1, from)]) : reached;
      }
      before_[at(t, s)] = reached + logs_[logAt(t, s)];
    }
  }
  sum_ = before_[at(steps - 1, states - 1)];
  return sum_ = states == 1 ? sum_ : logSum(sum_, before_[at(steps - 1, states - 2)]);
}

void CtcPaths::addSlopes(double scale, std::span<double> slopes) {
  if (steps_ == 0 || sum_ == kNone) {
    return;
  }
  const auto states = static_cast<std::int64_t>(classOf_.size());
  after_.assign(classOf_.size(), kNone);
  for (std::int64_t s = std::max<std::int64_t>(states - 2, 0); s < states; ++s) {
    after_[static_cast<std::size_t>(s)] = 0.0;
  }
  for (std::int64_t t = steps_ - 1; t >= 0; --t) {
    for (std::int64_t s = 0; s < states; ++s) {
      // States ahead still hold the values of the next step.
      double& after = after_[static_cast<std::size_t>(s)];
      if (t < steps_ - 1) {
        double onward = kNone;
        for (std::int64_t to = s; to < std::min(s + 3, states); ++to) {
          const double path = after_[static_cast<std::size_t>(to)] + logs_[logAt(t + 1, to)];
          onward = mayGo(s, to) ? logSum(onward, path) : onward;
        }
        after = onward;
      }
      slopes[logAt(t, s)] += scale * std::exp(before_[at(t, s)] + after - sum_);
    }
  }
}

}  // namespace sluice::ops
