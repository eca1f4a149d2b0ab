// Warnings where the share of a device's memory that a model gives an op (nn::setAvailableMemory,
// nn::MultiConv, Options::setAvailableMemoryProportion) does not hold what the op reads and writes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/tracer.h"

namespace sluice {

/// None where devices have no limit. A hint counts for the convolution, matrix product or indexing
/// op that makes its value, also below a bias; for others it has no meaning.
std::vector<std::string> availableMemoryWarnings(const ir::Graph& graph,
                                                 std::span<const nn::MemoryHint> hints,
                                                 const Options& options);

}  // namespace sluice
