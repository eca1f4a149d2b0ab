// What `sluice plan` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/api/model.h"

namespace sluice::cli {

/// Steps that are run to measure one.
inline constexpr int kMeasuredSteps = 5;

/// What the lines to paste depend on besides the plan.
struct PlanContext {
  std::string model;  ///< the file
  bool isMemoryGiven = false;
  bool interrupted = false;             ///< by Ctrl-C: the plan is the best so far
  std::optional<double> measured = {};  ///< seconds of a step of the best plan, when it was run
};

/// The lines that set up an object `options` for the report's best plan, which must exist.
std::vector<std::string> cppLines(const PlanReport& report, const PlanContext& context);
std::vector<std::string> pythonLines(const PlanReport& report, const PlanContext& context);

std::string planText(const PlanReport& report, const PlanContext& context);
std::string planJson(const PlanReport& report, const PlanContext& context);
/// The devices of the best plan in virtual time.
std::string planSvg(const PlanReport& report);

}  // namespace sluice::cli
