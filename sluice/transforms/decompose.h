// Replaces composite ops by the ops they are made of.
#pragma once

#include "sluice/base/function_ref.h"
#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Until no composite is left but those that `keep` names (a device has a kernel for them). The
/// parts have the placement of the op, stand where it stood and carry its name as their scope.
bool decompose(ir::Graph& graph, FunctionRef<bool(const ir::Op&)> keep);

}  // namespace sluice::transforms
