// What ops cost: the one table that schedules and cuts compare.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// On a nominal device of 50 Gflop/s and 10 GB/s, with a fixed cost per op. Leaves and views cost
/// nothing.
std::int64_t nanoseconds(const ir::Graph& graph, const ir::Op& op);

/// What each of these forward ops costs per micro-batch in both passes: with a loss, the ops of its
/// gradient count as well. Composites cost what their parts do. Throws what differentiating throws.
std::vector<std::int64_t> workOfOps(const ir::Graph& graph,
                                    std::span<const ir::OpId> ops,
                                    ir::Value loss);

}  // namespace sluice::parallel
