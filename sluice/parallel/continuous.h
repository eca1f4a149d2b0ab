// Continuous weight updates: each stage applies a gradient as soon as it has it, so that the
// pipeline never drains. Forward and backward of one micro-batch may see different weights; this is
// the one execution mode whose results differ from one device's.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// On a placed training graph without accumulation: the update of a weight becomes part of the
/// backward pass of its stage, and backward ops read weights as they are when they run. Throws
/// Unsupported when an update needs values of several devices (clipping by the norm of all
/// gradients).
void updateContinuously(ir::Graph& graph);

}  // namespace sluice::parallel
