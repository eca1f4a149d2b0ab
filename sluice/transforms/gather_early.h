// Moves what takes up gradients, like the assigns to accumulators, to where the gradients are made,
// so that their memory is free again at once and not at the end of the backward pass. Values keep
// their bits: every variable still gets the same terms in the same order.
#pragma once

#include <cstddef>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Backward ops at positions from `first` on come right after the last of what they read; those
/// without operands go along with their first reader.
void gatherEarly(ir::Graph& graph, std::size_t first);

}  // namespace sluice::transforms
