// The invariants of a Graph, checked after every pass. A broken invariant is a bug in the pass that
// ran last, so it is an InternalError; its message names the graph, the op and the rule.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::ir {

/// Throws InternalError unless all of these hold:
/// - operands and outputs exist, and every value is made before it is read;
/// - operand counts, attributes and result types are those that the op's definition gives;
/// - variables that ops name exist and have their types; only assign writes them;
/// - names of variables, inputs and outputs are unique;
/// - placement fields are -1 or valid; forward ops read no backward or update value, and backward
///   ops read no update value;
/// - random ops have an ordinal of 0 or more; subgraphs satisfy all of these rules, too.
void verify(const Graph& graph);

}  // namespace sluice::ir
