// Reverse-mode differentiation as a graph transform: appends the gradient ops after the forward
// ops. They are tagged Backward and have the placement of the op that they differentiate.
#pragma once

#include <span>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Returns the gradients of the scalar `loss` with respect to each value of `wrt`, in that order. A
/// value that the loss does not depend on gets zeros. `lossGrad` is the gradient of the loss itself
/// (ones if not given; loss scaling passes its factor). The gradients of a value's uses
/// are added in the order in which this pass makes them, the last use first (rule R7). Throws
/// InvalidArgument if the loss is not a float scalar, and Unsupported naming an op that has no
/// gradient.
std::vector<ir::Value> differentiate(ir::Graph& graph,
                                     ir::Value loss,
                                     std::span<const ir::Value> wrt,
                                     ir::Value lossGrad = {});

/// The gradients of the values that were asked for, and those of inner values.
struct Gradients {
  std::vector<ir::Value> wrt;    ///< zeros where the loss does not depend on the value
  bool reached = false;          ///< whether it depends on any of them
  std::vector<ir::Value> inner;  ///< not valid if no gradient in `wrt` needs it
};

/// The same, but also returns the gradients of `inner` values. It adds no ops for them.
Gradients differentiateAlong(ir::Graph& graph,
                             ir::Value loss,
                             std::span<const ir::Value> wrt,
                             ir::Value lossGrad,
                             std::span<const ir::Value> inner);

}  // namespace sluice::transforms
