#include "sluice/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kMaxGradNorm = "optimizer.max_grad_norm";

std::string scalarName(std::string_view hyper, std::size_t group) {
  return group == 0 ? fmt::format("optimizer.{}", hyper)
                    : fmt::format("optimizer.group{}.{}", group, hyper);
}

/// All but these two kinds of hyper-parameters are any number from 0.
void requireInRange(std::string_view hyper, double value) {
  const bool decay = hyper.starts_with("beta");
  const double above = hyper == "dampening" ? -HUGE_VAL : 0.0;
  if (!std::isfinite(value) || value < above || (decay && value >= 1.0)) {
    raise<InvalidArgument>("optimizer: {} is {}, expected a finite number{}",
                           hyper,
                           value,
                           decay          ? " in [0, 1)"
                           : above == 0.0 ? " from 0"
                                          : "");
  }
}

/// g * max / maximum(norm, max), with the norm summed in parameter order (rule R9). Below the
/// maximum the factor is exactly 1.
void clip(UpdateContext& context) {
  ir::GraphBuilder& b = context.b;
  const ir::Placement unplaced = b.place;
  ir::Value sum;
  for (const Gradient& gradient : context.gradients()) {
    context.placeWith(gradient);
    const ir::Value squares = ops::square(b, context.gradient(gradient));
    const ir::Value part = ops::cast(b, ops::reduceSum(b, squares, {}), context.scalarType());
    b.place = unplaced;
    sum = sum.valid() ? ops::add(b, sum, part) : part;
  }
  b.place = unplaced;
  const ir::Value maximum = context.scalar(kMaxGradNorm);
  const ir::Value factor = ops::div(b, maximum, ops::maximum(b, ops::sqrt(b, sum), maximum));
  std::vector<Gradient> clipped;
  for (const Gradient& gradient : context.gradients()) {
    context.placeWith(gradient);
    const DType type = context.computeType(gradient.variable);
    clipped.push_back(
        {gradient.variable, ops::mul(b, context.gradient(gradient), ops::cast(b, factor, type))});
  }
  b.place = unplaced;
  context.setGradients(std::move(clipped));
}

}  // namespace

ParameterFilter named(std::vector<std::string> variables) {
  return [names = std::move(variables)](std::string_view variable) {
    return std::ranges::find(names, variable) != names.end();
  };
}

ParameterFilter endingWith(std::string suffix) {
  return [end = std::move(suffix)](std::string_view variable) { return variable.ends_with(end); };
}

void Optimizer::expand(UpdateContext& context) const {
  if (context.gradients().empty()) {
    return;
  }
  const ir::AnnotationScope saved(context.b);
  context.b.scope = "update/";
  if (maxGradNorm_) {
    clip(context);
  }
  update(context);
}

std::map<std::string, double> Optimizer::scalars(double lrFactor) const {
  std::map<std::string, double> values;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Hypers hypers = groups_[i].hypers;
    hypers.find("lr")->second *= lrFactor;
    hypers.merge(derived(hypers));
    for (const auto& [hyper, value] : hypers) {
      values.emplace(scalarName(hyper, i), value);
    }
  }
  if (maxGradNorm_) {
    values.emplace(kMaxGradNorm, *maxGradNorm_);
  }
  return values;
}

std::size_t Optimizer::groupOf(std::string_view variable) const {
  for (std::size_t i = groups_.size(); i-- > 1;) {
    if (groups_[i].filter(variable)) {
      return i;
    }
  }
  return 0;
}

const Optimizer::Group& Optimizer::group(std::size_t index) const {
  if (index >= groups_.size()) {
    raise<InvalidArgument>("{}: group {} of {} groups", name(), index, groups_.size());
  }
  return groups_[index];
}

double Optimizer::get(std::string_view hyper, std::size_t index) const {
  const Hypers& hypers = group(index).hypers;
  const auto found = hypers.find(hyper);
  if (found == hypers.end()) {
    raise<InvalidArgument>(
        "{}: group {} has no hyper-parameter '{}' that can change", name(), index, hyper);
  }
  return found->second;
}

void Optimizer::set(std::string_view hyper, double value, std::size_t index) {
  get(hyper, index);
  requireInRange(hyper, value);
  groups_[index].hypers.find(hyper)->second = value;
}

void Optimizer::setMaxGradNorm(double maximum) {
  if (!std::isfinite(maximum) || maximum <= 0) {
    raise<InvalidArgument>("optimizer: max_grad_norm is {}, expected a number above 0", maximum);
  }
  maxGradNorm_ = maximum;
}

std::size_t Optimizer::addGroup(ParameterFilter filter, Hypers hypers) {
  if (!groups_.empty() && !filter) {
    raise<InvalidArgument>("optimizer: a parameter group needs a filter");
  }
  for (const auto& [hyper, value] : hypers) {
    requireInRange(hyper, value);
  }
  groups_.push_back({std::move(filter), std::move(hypers)});
  return groups_.size() - 1;
}

ir::Value Optimizer::hyper(UpdateContext& context,
                           std::string_view name,
                           std::size_t group,
                           DType type) const {
  return ops::cast(context.b, context.scalar(scalarName(name, group)), type);
}

Optimizer::Hypers Optimizer::derived(const Hypers&) const {
  return {};
}

}  // namespace sluice::optim
