// Moves the ops that consume gradients, like the assigns to accumulators, to the place where the
// gradients are made, so that their memory is free at once and not only at the end of the backward
// pass. Values keep their bits: every variable still gets the same terms in the same order.
#pragma once

#include <cstddef>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Moves each backward op at a position of at least `first` directly after the last op it reads. An
/// op without operands moves along with its first reader.
void gatherEarly(ir::Graph& graph, std::size_t first);

}  // namespace sluice::transforms
