// The invariants of a Graph, checked after every pass. A broken one is a bug of the pass that ran
// last, so it is an InternalError; its message names the graph, the op and the rule.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::ir {

/// Throws InternalError unless all of these hold:
/// - operands exist, and are made before they are read; so do the outputs;
/// - operand counts, attributes and result types are what the op's definition gives today;
/// - variables that ops name exist and have their types; only assign writes them;
/// - names of variables, inputs and outputs are unique;
/// - placement fields are -1 or valid; forward ops read no backward or update value, backward ops
///   no update value;
/// - random ops have an ordinal of 0 or more; subgraphs hold to all of this.
void verify(const Graph& graph);

}  // namespace sluice::ir
