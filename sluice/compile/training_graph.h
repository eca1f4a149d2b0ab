// Turns a forward graph into a training step: adds gradients, accumulation and the optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/compile/anchors.h"
#include "sluice/ir/graph.h"
#include "sluice/optim/gradient_options.h"
#include "sluice/optim/loss_scaler.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/update_context.h"

namespace sluice::compiler {

struct TrainingGraphOptions {
  std::int32_t accumulation = 1;
  GradientReduction reduction = GradientReduction::Mean;
  /// Reduction over replicas; not set: the same as over micro-batches.
  std::optional<GradientReduction> replicaReduction = {};
  /// Not set: Post; Running for accumulators in float16.
  std::optional<MeanReductionStrategy> meanStrategy = {};
  std::int32_t replicas = 1;
  std::optional<optim::LossScalingOptions> automaticLossScaling = {};
  optim::StateSharding sharding = {};
  optim::StateSharding accumulatorSharding = {};
  std::int64_t statisticsPeriod = 0;  ///< updates between logs of gradients; 0: never
  bool stochasticRounding = false;    ///< when 16-bit weights are updated
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

/// What differentiation passes to the update.
struct Differentiated {
  std::vector<WeightReads> weights;  ///< in the order of the graph's variables
  std::vector<ir::Value> gradients;  ///< by weight, then by read
  optim::Gathering gathering = {};
  std::optional<optim::LossScaler> scaler = {};
  std::vector<ir::Value> tracked = {};  ///< the gradients that the scaler watches
  std::size_t first = 0;  ///< the backward pass in the order of the graph, from here ...
  std::size_t end = 0;    ///< ... to here
  std::vector<WeightGradient> perMicroBatch = {};  ///< set once the update is appended
};

/// Appends the backward ops for every trainable weight that the loss may depend on. Composites must
/// be decomposed first. `tracked` has the tensors that automatic loss scaling names. Throws
/// InvalidArgument if there is nothing to train, or no gradient that the loss scaling can watch.
Differentiated differentiateLoss(ir::Graph& graph,
                                 ir::Value loss,
                                 const optim::Optimizer& optimizer,
                                 const TrainingGraphOptions& options,
                                 std::span<const NamedTensor> tracked = {});

/// Appends accumulators, sums over replicas and the optimizer's rule.
void addUpdate(ir::Graph& graph,
               Differentiated& gradients,
               const optim::Optimizer& optimizer,
               const TrainingGraphOptions& options);

/// Does both, and moves accumulation to the place where gradients are made: makes the training
/// graph as the compiler does.
std::vector<WeightGradient> addTraining(ir::Graph& graph,
                                        ir::Value loss,
                                        const optim::Optimizer& optimizer,
                                        const TrainingGraphOptions& options);

}  // namespace sluice::compiler
