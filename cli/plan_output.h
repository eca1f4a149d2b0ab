// What `sluice plan` prints.
#pragma once

#include <string>
#include <vector>

#include "sluice/api/model.h"

namespace sluice::cli {

/// What the lines to paste depend on besides the plan.
struct PlanContext {
  std::string model;   ///< the file
  std::string device;  ///< as --device says
  bool isMemoryGiven = false;
};

/// The lines that set up an object `options` for the report's best plan, which must exist.
std::vector<std::string> cppLines(const PlanReport& report, const PlanContext& context);
std::vector<std::string> pythonLines(const PlanReport& report, const PlanContext& context);

std::string planText(const PlanReport& report, const PlanContext& context);
std::string planJson(const PlanReport& report, const PlanContext& context);
/// The devices of the best plan in virtual time.
std::string planSvg(const PlanReport& report);

}  // namespace sluice::cli
