// Removes what nobody needs.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Removes pure ops that no output and no op with an effect depends on. Inputs stay: they are the
/// graph's signature.
bool eliminateDead(ir::Graph& graph);

}  // namespace sluice::transforms
