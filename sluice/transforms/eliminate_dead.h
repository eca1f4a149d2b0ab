// Dead code elimination.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Removes pure ops that no output and no op with an effect depends on. Inputs stay, because they
/// are the graph's signature.
bool eliminateDead(ir::Graph& graph);

}  // namespace sluice::transforms
