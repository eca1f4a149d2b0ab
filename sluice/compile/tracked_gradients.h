// Finds the gradients that automatic loss scaling watches (optim/loss_scaler.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sluice/compile/anchors.h"
#include "sluice/ir/graph.h"
#include "sluice/optim/gradient_options.h"

namespace sluice::compiler {

/// The ops that differentiation has appended to a graph.
struct BackwardPass {
  std::size_t first = 0;  ///< position in the order of the graph
  std::size_t end = 0;
  ir::Value lossGradient;  ///< the value that the pass begins with
  std::span<const ir::Value> weightGradients;
};

/// The float16 gradients that a method without named tensors tracks, in the order of the graph.
/// Throws InvalidArgument if there are none.
std::vector<ir::Value> trackedGradients(const ir::Graph& graph,
                                        const BackwardPass& backward,
                                        optim::GradientTensorTrackingMethod method);

/// The gradients of named tensors, each gradient once. `gradients` has one value per tensor, which
/// is not valid if the backward pass has no gradient for it. Throws InvalidArgument for a gradient
/// that is missing or not float16.
std::vector<ir::Value> trackedGradients(const ir::Graph& graph,
                                        std::span<const NamedTensor> tensors,
                                        std::span<const ir::Value> gradients);

/// The tensors that the settings name: tensors of the forward pass, or reads of a variable. Throws
/// InvalidArgument for a name that the model does not have.
std::vector<NamedTensor> trackedTensors(const ir::Graph& graph,
                                        std::span<const NamedTensor> known,
                                        const optim::LossScalingOptions& options);

}  // namespace sluice::compiler
