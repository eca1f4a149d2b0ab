// The loss of a traced module: what nn::identityLoss marked, or the last tensor of the result.
#pragma once

#include <cstddef>
#include <optional>

#include "sluice/ir/graph.h"

namespace sluice {

/// The output of the graph that holds the marked loss as one number; made if forward did not return
/// it. No value: nothing is marked. Throws InvalidArgument for marked tensors that do not all feed
/// one.
std::optional<std::size_t> markedLossOutput(ir::Graph& graph);

/// For a model without a mark, which minimises this output: throws InvalidArgument if another
/// output comes from a loss op (OpTraits::loss) on which this one does not depend. Composites must
/// be whole.
void requireLossLast(const ir::Graph& graph, std::size_t minimised);

}  // namespace sluice
