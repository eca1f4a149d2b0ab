// What `sluice plan` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/api/model.h"

namespace sluice::cli {

/// Steps that are run to measure one.
inline constexpr int kMeasuredSteps = 5;

/// The fastest of some steps. Other programs make the first number larger, hardly the second.
struct MeasuredStep {
  double seconds = 0;
  double processorSeconds = 0;  ///< of all threads
};

/// What the lines to paste depend on besides the plan.
struct PlanContext {
  std::string model;  ///< the file
  bool isMemoryGiven = false;
  bool interrupted = false;                   ///< by Ctrl-C: the plan is the best so far
  std::optional<MeasuredStep> measured = {};  ///< of the best plan, when it was run
};

/// The lines that set up an object `options` for the report's best plan, which must exist.
std::vector<std::string> cppLines(const PlanReport& report, const PlanContext& context);
std::vector<std::string> pythonLines(const PlanReport& report, const PlanContext& context);

std::string planText(const PlanReport& report, const PlanContext& context);
std::string planJson(const PlanReport& report, const PlanContext& context);
/// The devices of the best plan in virtual time.
std::string planSvg(const PlanReport& report);

}  // namespace sluice::cli
