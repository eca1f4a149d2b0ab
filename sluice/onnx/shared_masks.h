// Dropouts that make the same choice. Internal to this module.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::onnx {

/// Ops of one ordinal draw the same numbers; nodes of a file draw numbers of their own. Dropouts of
/// one ordinal and shape therefore become products with one dropout of ones.
void shareMasks(ir::Graph& graph);

}  // namespace sluice::onnx
