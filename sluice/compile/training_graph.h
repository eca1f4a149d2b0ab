// From a forward graph to what a training step runs: gradients, accumulation, the optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/compile/gradient_reduction.h"
#include "sluice/ir/graph.h"
#include "sluice/optim/loss_scaler.h"
#include "sluice/optim/loss_scaling_options.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/update_context.h"

namespace sluice::compiler {

struct TrainingGraphOptions {
  std::int32_t accumulation = 1;
  GradientReduction reduction = GradientReduction::Mean;
  /// Over replicas; not given: as over micro-batches.
  std::optional<GradientReduction> replicaReduction = {};
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

/// A weight and the values that read it.
struct WeightReads {
  std::string variable;
  std::vector<ir::Value> reads;
};

/// What differentiation hands on to the update.
struct Differentiated {
  std::vector<WeightReads> weights;  ///< in the order of the graph's variables
  std::vector<ir::Value> gradients;  ///< by weight, then by read
  optim::Gathering gathering = {};
  std::optional<optim::LossScaler> scaler = {};
  std::size_t first = 0;  ///< the backward pass in the order of the graph, from here ...
  std::size_t end = 0;    ///< ... to here
  std::vector<WeightGradient> perMicroBatch = {};  ///< once the update is there
};

/// Appends the backward ops for every trainable weight the loss may depend on. Composites must be
/// decomposed first. Throws InvalidArgument when there is nothing to train.
Differentiated differentiateLoss(ir::Graph& graph,
                                 ir::Value loss,
                                 const optim::Optimizer& optimizer,
                                 const TrainingGraphOptions& options);

/// Appends accumulators, sums over replicas and the optimizer's rule.
void addUpdate(ir::Graph& graph,
               Differentiated& gradients,
               const optim::Optimizer& optimizer,
               const TrainingGraphOptions& options);

/// Both, and moves accumulation to where gradients are made: the training graph as the compiler
/// makes it.
std::vector<WeightGradient> addTraining(ir::Graph& graph,
                                        ir::Value loss,
                                        const optim::Optimizer& optimizer,
                                        const TrainingGraphOptions& options);

}  // namespace sluice::compiler
