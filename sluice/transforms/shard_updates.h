// Updates on parts: where replicas share an optimizer's state, each computes the part of an update
// that it keeps the state for.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Moves every replica_scatter up to where its operand comes from: an element-wise op of scattered
/// operands has the same elements as a scattered result, what was gathered is there in parts, and
/// of a sum over replicas only the part is made. What an op that is not element-wise reads of it is
/// gathered. Changes no bit.
bool shardUpdates(ir::Graph& graph);

}  // namespace sluice::transforms
