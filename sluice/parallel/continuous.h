// Continuous weight updates: each stage applies a gradient as soon as it has it, so that the
// pipeline never drains. The forward and the backward pass of one micro-batch may see different
// weights. This is the only execution mode whose results differ from those of one device.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// Takes a placed training graph without accumulation. The update of a weight becomes part of the
/// backward pass of its stage, and backward ops read weights as they are when the ops run. Throws
/// Unsupported if an update needs values of several devices (clipping by the norm of all
/// gradients).
void updateContinuously(ir::Graph& graph);

}  // namespace sluice::parallel
