// Plans until a plan fits. Several plans are tried if the settings leave choices open or if there
// is no room for the first choice. If no plan fits the byte budget, other settings are planned for
// real, and the error names those that fit.
#pragma once

#include "sluice/compile/runner.h"
#include "sluice/compile/stages.h"

namespace sluice::compiler {

/// Plans and lowers a graph after the passes. Throws what planning and lowering throw.
Compilation fitPlan(const Compilation& step, Runner& runner);

/// Makes the first plan that fitPlan would try, and does not lower it. This shows whether the
/// settings fit the graph and each other. Throws what planning throws.
Compilation planFirst(const Compilation& step, Runner& runner);

}  // namespace sluice::compiler
