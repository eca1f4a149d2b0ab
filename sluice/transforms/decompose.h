// Replaces composite ops by the ops that they are composed of.
#pragma once

#include "sluice/base/function_ref.h"
#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Repeats until no composite is left except those that `keep` accepts (a device has a kernel for
/// them). The parts take the op's placement and position, and its name becomes their scope.
bool decompose(ir::Graph& graph, FunctionRef<bool(const ir::Op&)> keep);

}  // namespace sluice::transforms
