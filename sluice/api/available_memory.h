// Warnings about ops whose share of a device's memory is too small. A model sets the share with
// nn::setAvailableMemory, nn::MultiConv or Options::setAvailableMemoryProportion; it is too small
// if it does not hold what the op reads and writes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/tracer.h"

namespace sluice {

/// Returns no warnings if devices have no memory limit. A hint applies to the convolution, matrix
/// product or indexing op that makes its value, even if a bias is added to the result; a hint on
/// any other op is ignored.
std::vector<std::string> availableMemoryWarnings(const ir::Graph& graph,
                                                 std::span<const nn::MemoryHint> hints,
                                                 const Options& options);

}  // namespace sluice
