// PopART's pipelines copy only between neighbouring stages, so that a copy stays aligned with its
// micro-batch: a value for a later stage passes through all stages between. Under the other
// schedules a value goes directly to its reader. Transfers name their micro-batch, so both ways
// give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// Takes a placed graph. A value that is read on another device more than one stage away is passed
/// on by a copy in each stage between, in the pass in which it gets there. Variables and constants
/// are not passed on: each device has its own copy of them.
void relayCopies(ir::Graph& graph, std::span<const std::int32_t> deviceOfStage);

}  // namespace sluice::parallel
