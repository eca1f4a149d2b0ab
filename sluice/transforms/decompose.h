// Replaces ops by other ops that do the same, and composite ops by the ops they are made of.
#pragma once

#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/ir/graph.h"

namespace sluice::ir {
class GraphBuilder;
}

namespace sluice::transforms {

/// Appends the parts of an op with the builder and returns the values that take the place of its
/// results. An op for which it returns none, and for which it must have appended nothing, stays.
using PartsOf = FunctionRef<std::vector<ir::Value>(ir::GraphBuilder&, const ir::Op&)>;

/// Asks once for the parts of every op; true if an op was replaced. The parts have the placement of
/// the op, stand where it stood and carry its name as their scope.
bool replaceByParts(ir::Graph& graph, PartsOf partsOf);

/// Until no composite is left but those that `keep` names (a device has a kernel for them).
bool decompose(ir::Graph& graph, FunctionRef<bool(const ir::Op&)> keep);

}  // namespace sluice::transforms
