// Losses and optimizers that commands add to a model from a file, by their names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/frontends/popart/builder.h"
#include "sluice/optim/optimizer.h"
#include "sluice/tensor/shape.h"

namespace sluice::cli {

/// PyTorch's names.
std::vector<std::string> lossNames();
std::vector<std::string> optimizerNames();

/// Adds the loss with this name, one of lossNames(), of an output and a target.
TensorId addLoss(Builder& builder,
                 const std::string& name,
                 const TensorId& output,
                 const TensorId& target);
/// The type that the target of a loss has for an output.
TensorType targetOf(const std::string& loss, const TensorType& output);

std::unique_ptr<optim::Optimizer> optimizerOf(const std::string& name, double learningRate);

}  // namespace sluice::cli
