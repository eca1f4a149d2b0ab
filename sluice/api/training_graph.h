// From a forward graph to what a training step runs: gradients, accumulation, the optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/ir/graph.h"
#include "sluice/optim/loss_scaling_options.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/update_context.h"

namespace sluice {

struct TrainingGraphOptions {
  std::int32_t accumulation = 1;
  Reduction reduction = Reduction::Mean;
  /// Over replicas; not given: as over micro-batches.
  std::optional<Reduction> replicaReduction = {};
  /// Not given: Post, for accumulators in float16 Running.
  std::optional<MeanReductionStrategy> meanStrategy = {};
  std::int32_t replicas = 1;
  std::optional<optim::LossScalingOptions> automaticLossScaling = {};
  optim::StateSharding sharding = {};
  std::int64_t statisticsPeriod = 0;  ///< of logging gradients, in updates; 0: never
  bool stochasticRounding = false;    ///< of 16-bit weights
};

/// The gradient of a weight in one micro-batch.
struct WeightGradient {
  std::string variable;
  ir::Value value;
};

/// Appends backward and update ops for every trainable weight the loss may depend on, in the order
/// of the graph's variables. Composites must be decomposed first. Throws InvalidArgument when there
/// is nothing to train.
std::vector<WeightGradient> addTraining(ir::Graph& graph,
                                        ir::Value loss,
                                        const optim::Optimizer& optimizer,
                                        const TrainingGraphOptions& options);

}  // namespace sluice
