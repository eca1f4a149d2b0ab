// The loss of a traced module: the tensor that nn::identityLoss marked, else the last tensor of the
// result.
#pragma once

#include <cstddef>
#include <optional>

#include "sluice/ir/graph.h"

namespace sluice {

/// The output of the graph that holds the marked loss as one number. The output is added if forward
/// did not return the loss. Returns nullopt if nothing is marked. Throws InvalidArgument unless all
/// marked tensors feed the last one.
std::optional<std::size_t> markedLossOutput(ir::Graph& graph);

/// For a model without a mark, which minimises this output. Throws InvalidArgument if another
/// output comes from a loss op (OpTraits::loss) on which this one does not depend. Composite ops
/// must not have been replaced by their parts yet.
void requireLossLast(const ir::Graph& graph, std::size_t minimised);

}  // namespace sluice
