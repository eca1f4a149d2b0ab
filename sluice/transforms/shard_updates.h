// Updates on parts: if replicas share an optimizer's state, each replica computes only the part of
// an update for which it keeps the state.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Moves every replica_scatter up to the origin of its operand. An element-wise op on scattered
/// operands gives the elements of the scattered result; a scatter of a gathered value is the part
/// itself; and of a sum over replicas only the part is computed. If an op that is not element-wise
/// reads such a value, the value is gathered for it. Changes no bits.
bool shardUpdates(ir::Graph& graph);

}  // namespace sluice::transforms
