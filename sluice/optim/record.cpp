#include "sluice/optim/record.h"

#include <utility>

#include "sluice/base/error.h"
#include "sluice/ir/value.h"
#include "sluice/optim/optimizers.h"

namespace sluice::optim {
namespace {

/// Takes the settings of a rule one by one.
class SettingReader {
 public:
  explicit SettingReader(const OptimizerRecord& record) : record_(record) {}

  double number(std::string_view name) const {
    const auto found = record_.settings.find(name);
    if (found == record_.settings.end()) {
      raise<InvalidArgument>("{} has no setting '{}'", record_.rule, name);
    }
    return found->second;
  }
  bool flag(std::string_view name) const { return number(name) != 0; }
  std::optional<DType> type(std::string_view name) const {
    const double value = number(name);
    if (value == -1) {
      return std::nullopt;
    }
    for (int i = 0; i < kNumDTypes; ++i) {
      if (value == i) {
        return static_cast<DType>(i);
      }
    }
    raise<InvalidArgument>("{}: setting '{}' is {}, no type", record_.rule, name, value);
  }

 private:
  const OptimizerRecord& record_;
};

/// The rule with its own settings; its attributes are those that its constructor accepts.
std::unique_ptr<Optimizer> ruleOf(const OptimizerRecord& record) {
  const SettingReader settings(record);
  if (record.rule == "SGD") {
    const bool nesterov = settings.flag("nesterov");
    return std::make_unique<SGD>(SgdOptions{.momentum = nesterov ? 0.5 : 0.0,
                                            .nesterov = nesterov,
                                            .useCombinedAccum = settings.flag("combined"),
                                            .torchCompatible = settings.flag("torchCompatible"),
                                            .velocityAccumType = settings.type("velocity")});
  }
  if (record.rule == "RMSprop") {
    return std::make_unique<RMSprop>(
        RmsPropOptions{.centered = settings.flag("centered"),
                       .useTfVariant = settings.flag("tfVariant"),
                       .firstOrderMomentumAccumType = settings.type("first"),
                       .secondOrderMomentumAccumType = settings.type("second")});
  }
  if (record.rule == "LAMB") {
    return std::make_unique<LAMB>(
        LambOptions{.biasCorrection = settings.flag("biasCorrection"),
                    .firstOrderMomentumAccumType = settings.type("first"),
                    .secondOrderMomentumAccumType = settings.type("second")});
  }
  if (record.rule == "Adam" || record.rule == "AdamW") {
    const AdamOptions options{.biasCorrection = settings.flag("biasCorrection"),
                              .firstOrderMomentumAccumType = settings.type("first"),
                              .secondOrderMomentumAccumType = settings.type("second")};
    if (record.rule == "Adam") {
      return std::make_unique<Adam>(options);
    }
    return std::make_unique<AdamW>(options);
  }
  raise<InvalidArgument>("there is no optimizer '{}'", record.rule);
}

}  // namespace

double settingOf(std::optional<DType> type) {
  return type ? static_cast<double>(*type) : -1.0;
}

OptimizerRecord recordOf(const Optimizer& optimizer, std::span<const ir::Variable> weights) {
  const std::optional<Attributes> settings = optimizer.settings();
  if (!settings) {
    raise<Unsupported>("the optimizer {} is, or calls, code of the user, which no file can hold",
                       optimizer.name());
  }
  OptimizerRecord record{.rule = optimizer.name(), .settings = *settings};
  optimizer.describe(record, weights);
  return record;
}

std::unique_ptr<Optimizer> makeOptimizer(const OptimizerRecord& record) {
  std::unique_ptr<Optimizer> made = ruleOf(record);
  made->restore(record);
  return made;
}

void Optimizer::describe(OptimizerRecord& record, std::span<const ir::Variable> weights) const {
  for (const Group& each : groups_) {
    record.groups.push_back({each.attributes.values, each.attributes.constant});
  }
  record.common = {common_.values, common_.constant};
  record.accumType = accumType_;
  record.castGradients = castGradients_;
  if (accumulationType_) {
    record.accumulation.emplace();
  }
  for (const ir::Variable& weight : weights) {
    if (weight.role != ir::VariableRole::Weight) {
      continue;
    }
    if (const std::size_t found = groupOf(weight.name); found != 0) {
      record.groupOf.emplace(weight.name, static_cast<std::int32_t>(found));
    }
    if (accumulationType_) {
      record.accumulation->emplace(weight.name, accumulationType_(weight));
    }
  }
}

void Optimizer::restore(const OptimizerRecord& record) {
  const auto checked = [this](const AttributeRecord& given, const AttributeSet& own) {
    if (given.values.size() != own.values.size()) {
      raise<InvalidArgument>(
          "{} has {} attributes here, not {}", name(), own.values.size(), given.values.size());
    }
    for (const auto& [attribute, value] : given.values) {
      if (!own.values.contains(attribute)) {
        raise<InvalidArgument>("{} has no attribute '{}' here", name(), attribute);
      }
      requireInRange(attribute, value);
    }
    for (const auto& [attribute, constant] : given.constant) {
      if (!own.values.contains(attribute) || (constant && attribute == "lr")) {
        raise<InvalidArgument>("{}: '{}' cannot be marked", name(), attribute);
      }
    }
    return AttributeSet{given.values, given.constant};
  };
  if (record.groups.empty()) {
    raise<InvalidArgument>("{} has no group", name());
  }
  std::vector<Group> groups;
  for (const AttributeRecord& each : record.groups) {
    groups.push_back({.filter = {}, .attributes = checked(each, groups_[0].attributes)});
  }
  std::vector<std::vector<std::string>> members(groups.size());
  for (const auto& [weight, group] : record.groupOf) {
    if (group < 1 || static_cast<std::size_t>(group) >= groups.size()) {
      raise<InvalidArgument>("{}: '{}' is in group {} of {}", name(), weight, group, groups.size());
    }
    members[static_cast<std::size_t>(group)].push_back(weight);
  }
  for (std::size_t g = 1; g < groups.size(); ++g) {
    groups[g].filter = named(std::move(members[g]));
  }
  common_ = checked(record.common, common_);
  groups_ = std::move(groups);
  requireStateType("accum_type", record.accumType);
  accumType_ = record.accumType;
  castGradients_ = record.castGradients;
  if (record.accumulation) {
    accumulationType_ = [types = *record.accumulation](const ir::Variable& weight) {
      const auto found = types.find(weight.name);
      return found == types.end() ? std::nullopt : found->second;
    };
  }
}

}  // namespace sluice::optim
