// The loss of a traced module: what nn::identityLoss marked.
#pragma once

#include <cstddef>
#include <optional>

#include "sluice/ir/graph.h"

namespace sluice {

/// The output of the graph that holds the marked loss as one number; made if forward did not return
/// it. No value: nothing is marked. Throws InvalidArgument for marked tensors that do not all feed
/// one.
std::optional<std::size_t> markedLossOutput(ir::Graph& graph);

}  // namespace sluice
