// What ops cost: the one table that schedules and cuts use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// The time of the op on a nominal device of 50 Gflop/s and 10 GB/s, with a fixed cost per op.
/// Leaves and views cost nothing.
std::int64_t nanoseconds(const ir::Graph& graph, const ir::Op& op);

/// The cost of each of these forward ops per micro-batch in both passes; with a loss, the ops of
/// its gradient count as well. A composite costs as much as its parts. Throws what differentiation
/// throws.
std::vector<std::int64_t> workOfOps(const ir::Graph& graph,
                                    std::span<const ir::OpId> ops,
                                    ir::Value loss);

}  // namespace sluice::parallel
