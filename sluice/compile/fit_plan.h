// Planning until a plan fits: where the settings leave something open, or there is no room for what
// they ask first, several plans are tried. If none is within the byte budget, other settings are
// planned for real, and the error names those that fit.
#pragma once

#include "sluice/compile/runner.h"
#include "sluice/compile/stages.h"

namespace sluice::compiler {

/// Plans and lowers a graph whose passes are done. Throws what planning and lowering throw.
Compilation fitPlan(const Compilation& step, Runner& runner);

}  // namespace sluice::compiler
