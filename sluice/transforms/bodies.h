// Passes inside the bodies of loops and branches.
#pragma once

#include "sluice/base/function_ref.h"
#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Runs a pass on the bodies of all control-flow ops, the innermost first, and then on the graph
/// itself. Returns whether it changed anything.
bool inAllGraphs(ir::Graph& graph, FunctionRef<bool(ir::Graph&)> pass);

/// Replaces composites by their parts, in all graphs, so that they can be differentiated. Control
/// flow stays: autodiff differentiates it by its bodies.
bool decomposeComposites(ir::Graph& graph);

}  // namespace sluice::transforms
