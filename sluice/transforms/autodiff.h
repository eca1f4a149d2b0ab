// Reverse-mode differentiation as a graph transform: appends the gradient ops (tagged Backward, on
// the placement of the op they differentiate) behind the forward ones.
#pragma once

#include <span>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Gradients of the scalar `loss` with respect to each value of `wrt`, in that order. A value that
/// the loss does not depend on gets zeros. `lossGrad` starts the chain (ones when not given: loss
/// scaling passes its factor). Contributions to one value are added in op order (rule R7). Throws
/// InvalidArgument for a loss that is not a float scalar, Unsupported naming an op that has no
/// gradient.
std::vector<ir::Value> differentiate(ir::Graph& graph,
                                     ir::Value loss,
                                     std::span<const ir::Value> wrt,
                                     ir::Value lossGrad = {});

}  // namespace sluice::transforms
