// From a forward graph to what a training step runs: gradients, accumulation, the optimizer.
#pragma once

#include <cstdint>

#include "sluice/api/options.h"
#include "sluice/ir/graph.h"
#include "sluice/optim/optimizer.h"

namespace sluice {

struct TrainingGraphOptions {
  std::int32_t accumulation = 1;
  Reduction reduction = Reduction::Mean;
  MeanReductionStrategy meanStrategy = MeanReductionStrategy::Post;
  std::int32_t replicas = 1;
};

/// Appends backward and update ops for every trainable weight the loss may depend on, in the order
/// of the graph's variables. Composites must be decomposed first. Throws InvalidArgument when there
/// is nothing to train.
void addTraining(ir::Graph& graph,
                 ir::Value loss,
                 const optim::Optimizer& optimizer,
                 const TrainingGraphOptions& options);

}  // namespace sluice
