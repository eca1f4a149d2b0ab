// Merges batch norms of inference into the convolutions and matrix products before them. The only
// pass that changes results, so it runs only where the option foldBatchNorm asks for it.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Replaces a batch_norm_inference of a convolution, a transposed convolution or a matrix product
/// [n, channels], with or without a bias, by the same op with another weight and bias. They are
/// computed in float64 and rounded once. This needs a weight, a bias and operands of the norm that
/// are constants, and a result that nothing else reads and that is no output. Where a new constant
/// would not be finite, or too small for its type, the norm stays.
bool foldBatchNorm(ir::Graph& graph);

}  // namespace sluice::transforms
