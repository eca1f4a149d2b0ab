// An optimizer as plain data, so that an executable can hold it. What is code in an optimizer, the
// filters of its groups and its function of accumulation types, is recorded by its results for the
// weights of the model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/optim/optimizer.h"

namespace sluice::optim {

struct AttributeRecord {
  Attributes values;
  std::map<std::string, bool, std::less<>> constant;  ///< those that were marked

  bool operator==(const AttributeRecord&) const = default;
};

struct OptimizerRecord {
  std::string rule;     ///< Optimizer::name
  Attributes settings;  ///< Optimizer::settings
  std::vector<AttributeRecord> groups;
  AttributeRecord common;
  std::map<std::string, std::int32_t> groupOf;  ///< of weights outside of group 0
  std::optional<DType> accumType;
  /// The results of the function of accumulation types; not set: there is none.
  std::optional<std::map<std::string, std::optional<DType>>> accumulation;
  bool castGradients = false;

  bool operator==(const OptimizerRecord&) const = default;
};

/// Throws Unsupported, naming the rule, for an optimizer that calls functions of the user.
OptimizerRecord recordOf(const Optimizer& optimizer, std::span<const ir::Variable> weights);
/// The optimizer that a record describes. Throws InvalidArgument for a record that none has.
std::unique_ptr<Optimizer> makeOptimizer(const OptimizerRecord& record);

/// How settings have an optional type: its number, or -1.
double settingOf(std::optional<DType> type);

}  // namespace sluice::optim
