#include "sluice/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/ranges.h>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/optim/update_context.h"

namespace sluice::optim {
namespace {

std::string scalarName(std::string_view scalar, std::size_t group) {
  return group == 0 ? fmt::format("optimizer.{}", scalar)
                    : fmt::format("optimizer.group{}.{}", group, scalar);
}

/// Of a value and the text of what was expected.
struct Range {
  bool holds = false;
  std::string_view text;
};

Range rangeOf(std::string_view attribute, double value) {
  if (attribute == "max_grad_norm") {
    return {value > 0, "a number above 0, or infinity for none"};
  }
  const bool finite = std::isfinite(value);
  if (attribute.starts_with("beta") || attribute == "alpha") {
    return {finite && value >= 0 && value < 1, "a number in [0, 1)"};
  }
  if (attribute == "loss_scaling" || attribute == "velocity_scaling") {
    return {finite && value > 0, "a finite number above 0"};
  }
  return {finite && (value >= 0 || attribute == "dampening"),
          attribute == "dampening" ? "a finite number" : "a finite number from 0"};
}

}  // namespace

void requireInRange(std::string_view attribute, double value) {
  if (const Range range = rangeOf(attribute, value); !range.holds) {
    raise<InvalidArgument>("optimizer: {} is {}, expected {}", attribute, value, range.text);
  }
}

namespace {

/// At which value a part of the rule is left out; nothing: the attribute is always used.
std::optional<double> neutralValue(std::string_view attribute) {
  if (attribute == "momentum") {
    return 0.0;
  }
  if (attribute == "loss_scaling") {
    return 1.0;
  }
  return attribute == "max_grad_norm" ? std::optional(kNoGradNorm) : std::nullopt;
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

void requireStateType(std::string_view option, std::optional<DType> type) {
  if (type && *type != DType::F32 && *type != DType::F16) {
    raise<InvalidArgument>("optimizer: {} is {}, expected f32 or f16", option, sluice::name(*type));
  }
}

Optimizer::Optimizer(Attributes group, const CommonOptions& options, const Attributes& own)
    : accumType_(options.accumType) {
  groups_.push_back({.filter = {}, .attributes = {.values = std::move(group), .constant = {}}});
  common_.values = own;
  common_.values.emplace("loss_scaling", options.lossScaling);
  common_.values.emplace("max_grad_norm", options.maxGradNorm);
  for (const auto& [attribute, value] : all(0)) {
    requireInRange(attribute, value);
  }
  requireStateType("accum_type", accumType_);
}

std::size_t Optimizer::addGroup(ParameterFilter filter, const Attributes& attributes) {
  if (!filter) {
    raise<InvalidArgument>("optimizer: a parameter group needs a filter");
  }
  Group added = groups_.front();
  added.filter = std::move(filter);
  for (const auto& [attribute, value] : attributes) {
    if (common_.values.contains(attribute)) {
      raise<InvalidArgument>(
          "{}: {} belongs to the whole optimizer, not to a group", name(), attribute);
    }
    require(attribute);
    requireInRange(attribute, value);
    added.attributes.values.find(attribute)->second = value;
  }
  groups_.push_back(std::move(added));
  return groups_.size() - 1;
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
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.PureVirtualCall): constructors ask for the first one
    raise<InvalidArgument>("{}: group {} of {} groups", name(), index, groups_.size());
  }
  return groups_[index];
}

Attributes Optimizer::all(std::size_t index) const {
  Attributes attributes = group(index).attributes.values;
  attributes.insert(common_.values.begin(), common_.values.end());
  return attributes;
}

Attributes Optimizer::attributes(std::size_t index) const {
  return index == 0 ? all(0) : group(index).attributes.values;
}

void Optimizer::require(std::string_view attribute) const {
  const Attributes attributes = all(0);
  if (!attributes.contains(attribute)) {
    std::vector<std::string> known;
    for (const auto& [each, value] : attributes) {
      known.push_back(each);
    }
    raise<InvalidArgument>(
        "{} has no attribute '{}'; it has {}", name(), attribute, fmt::join(known, ", "));
  }
}

const Optimizer::AttributeSet& Optimizer::setWith(std::string_view attribute,
                                                  std::size_t index) const {
  require(attribute);
  const Group& found = group(index);
  if (found.attributes.values.contains(attribute)) {
    return found.attributes;
  }
  if (index != 0) {
    raise<InvalidArgument>(
        "{}: {} is the same for all groups, got group {}", name(), attribute, index);
  }
  return common_;
}

double Optimizer::get(std::string_view attribute, std::size_t index) const {
  return setWith(attribute, index).values.find(attribute)->second;
}

void Optimizer::set(std::string_view attribute, double value, std::size_t index) {
  const bool common = &setWith(attribute, index) == &common_;
  requireInRange(attribute, value);
  Attributes& values = common ? common_.values : groups_[index].attributes.values;
  values.find(attribute)->second = value;
}

std::optional<double> Optimizer::maxGradNorm() const {
  const double maximum = get("max_grad_norm");
  return std::isfinite(maximum) ? std::optional(maximum) : std::nullopt;
}

Optimizer& Optimizer::mark(std::string_view attribute, bool constant) {
  require(attribute);
  if (constant && attribute == "lr") {
    raise<InvalidArgument>("{}: lr is always variable", name());
  }
  if (common_.values.contains(attribute)) {
    common_.constant.insert_or_assign(std::string(attribute), constant);
    return *this;
  }
  for (Group& each : groups_) {
    each.attributes.constant.insert_or_assign(std::string(attribute), constant);
  }
  return *this;
}

bool Optimizer::isConstant(std::string_view attribute, std::size_t index) const {
  const AttributeSet& attributes =
      setWith(attribute, common_.values.contains(attribute) ? 0 : index);
  const auto marked = attributes.constant.find(attribute);
  return marked != attributes.constant.end()
             ? marked->second
             : neutralValue(attribute) == attributes.values.find(attribute)->second;
}

bool Optimizer::leftOut(std::string_view attribute, std::size_t index) const {
  const std::size_t at = common_.values.contains(attribute) ? 0 : index;
  return isConstant(attribute, at) && neutralValue(attribute) == get(attribute, at);
}

Optimizer& Optimizer::markDefaultsAsConstant() {
  const Attributes standard = defaults();
  const auto isStandard = [&](std::string_view attribute, double value) {
    const auto found = standard.find(attribute);
    return attribute.starts_with("beta") || attribute == "alpha" ||
           (found != standard.end() ? found->second == value : neutralValue(attribute) == value);
  };
  const auto markAll = [&](AttributeSet& attributes) {
    for (const auto& [attribute, value] : attributes.values) {
      attributes.constant.insert_or_assign(attribute,
                                           attribute != "lr" && isStandard(attribute, value));
    }
  };
  for (Group& each : groups_) {
    markAll(each.attributes);
  }
  markAll(common_);
  return *this;
}

DType Optimizer::accumulatorType(const ir::Variable& weight) const {
  const DType own = weight.type.dtype;
  if (!accumulationType_) {
    return accumType_.value_or(computeTypeOf(own));
  }
  const DType type = accumulationType_(weight).value_or(own);
  if (!isFloat(type)) {
    raise<InvalidArgument>("{}: the accumulation type of '{}' is {}, expected a float",
                           name(),
                           weight.name,
                           sluice::name(type));
  }
  if (type != own && !castGradients_) {
    raise<InvalidArgument>(
        "{}: type mismatch: the gradient of '{}' is accumulated in {} and the weight is {}; let "
        "the optimizer cast it with castGradients()",
        name(),
        weight.name,
        sluice::name(type),
        sluice::name(own));
  }
  return type;
}

Optimizer::DerivedScalars Optimizer::derived(const Attributes&) const {
  return {};
}

std::map<std::string, double> Optimizer::scalars(double lrFactor) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  std::map<std::string, double> values;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Attributes attributes = all(i);
    attributes.find("lr")->second *= lrFactor;
    for (const auto& [scalar, derivedScalar] : derived(attributes)) {
      values.emplace(scalarName(scalar, i), derivedScalar.value);
    }
    for (const auto& [attribute, value] : attributes) {
      // An infinite norm as a number that divides by itself to 1.
      values.emplace(scalarName(attribute, i), std::min(value, kLargest));
    }
  }
  values.emplace("optimizer.inverse_loss_scaling", 1.0 / get("loss_scaling"));
  return values;
}

std::optional<double> Optimizer::constantValue(std::string_view scalar, std::size_t index) const {
  if (scalar == "inverse_loss_scaling") {
    return isConstant("loss_scaling") ? std::optional(1.0 / get("loss_scaling")) : std::nullopt;
  }
  const Attributes attributes = all(index);
  if (const auto found = attributes.find(scalar); found != attributes.end()) {
    return isConstant(scalar, index) ? std::optional(found->second) : std::nullopt;
  }
  const DerivedScalars scalars = derived(attributes);
  const auto found = scalars.find(scalar);
  SLUICE_CHECK(found != scalars.end(), "{} has no scalar '{}'", name(), scalar);
  const bool constant = std::ranges::all_of(
      found->second.from, [&](std::string_view from) { return isConstant(from, index); });
  return constant ? std::optional(found->second.value) : std::nullopt;
}

ir::Value Optimizer::scalar(UpdateContext& context,
                            std::string_view scalar,
                            std::size_t index,
                            DType type) const {
  if (const std::optional<double> value = constantValue(scalar, index)) {
    return context.b.scalar(type, *value);
  }
  return ops::cast(context.b, context.scalar(scalarName(scalar, index)), type);
}

ir::Value Optimizer::scalar(ir::GraphBuilder& b,
                            std::string_view scalar,
                            std::size_t index,
                            DType scalarType,
                            DType type) const {
  if (const std::optional<double> value = constantValue(scalar, index)) {
    return b.scalar(type, *value);
  }
  return ops::cast(b, readStepScalar(b, scalarName(scalar, index), scalarType), type);
}

void Optimizer::requireSameConstants(const Optimizer& next) const {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Attributes before = all(i);
    const Attributes after = next.all(i);
    for (const auto& [attribute, value] : before) {
      if (isConstant(attribute, i) && after.at(attribute) != value) {
        raise<InvalidArgument>(
            "{}: {} of group {} is constant: the model was compiled with {}, got {}; mark it as "
            "variable before the model is compiled",
            name(),
            attribute,
            i,
            value,
            after.at(attribute));
      }
    }
  }
}

std::unique_ptr<Optimizer> Optimizer::succeededBy(const Optimizer& next) const {
  if (next.name() != name() || next.structure() != structure() || next.numGroups() != numGroups() ||
      next.accumType_ != accumType_) {
    raise<InvalidArgument>(
        "the model was compiled with {} ({} groups, {}), got {} ({} groups, {}): another rule "
        "needs "
        "another model",
        name(),
        numGroups(),
        structure(),
        next.name(),
        next.numGroups(),
        next.structure());
  }
  requireSameConstants(next);
  std::unique_ptr<Optimizer> result = next.clone();
  const auto keep = [&](AttributeSet& attributes, std::size_t index) {
    for (const auto& [attribute, value] : attributes.values) {
      attributes.constant.insert_or_assign(attribute, isConstant(attribute, index));
    }
  };
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    keep(result->groups_[i].attributes, i);
  }
  keep(result->common_, 0);
  return result;
}

}  // namespace sluice::optim
