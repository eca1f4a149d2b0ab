// Common subexpression elimination.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Merges pure ops of the same kind with the same operands, attributes and placement into the first
/// of them. Reads of a variable are equal only if no assign of it lies between them; random ops are
/// equal only if they have the same ordinal.
bool eliminateCommon(ir::Graph& graph);

}  // namespace sluice::transforms
