// pipeline(): a pipeline of stage functions, the way of the TensorFlow port. Each stage is a block
// on its device and the stages are a PipelinedExecution of the function's Model, so that results
// have the bits of trainingModel or inferenceModel with the same blocks.
//
//   auto train = compile(net, Options(), [&](const Tensors&) {
//     return pipeline({encode, {left, right}, decode},
//                     {.gradientAccumulationCount = 8, .infeed = &infeed, .outfeed = &losses,
//                      .optimizerFunction = [](const Tensors& out) {
//                        return OptimizerFunctionOutput{optim::SGD(0.1), out[0]};
//                      }});
//   });
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "sluice/api/loops.h"
#include "sluice/api/update_rule.h"

namespace sluice {

/// A function from the outputs of the stage before to those of this one, or several that run on
/// devices of their own at the same time. These all get the same arguments, and their outputs are
/// joined in order. They may share no weight and not depend on each other.
class PipelineStage {
 public:
  template <std::convertible_to<nn::Body> F>
  PipelineStage(F function)  // NOLINT(*-explicit-*)
      : functions_{std::move(function)} {}
  PipelineStage(std::initializer_list<nn::Body> functions)  // NOLINT(*-explicit-*)
      : functions_(functions) {}

  const std::vector<nn::Body>& functions() const { return functions_; }

 private:
  std::vector<nn::Body> functions_;
};

/// The device of a stage, or those of the functions of concurrent ones.
class StageDevices {
 public:
  StageDevices(std::int32_t device) : devices_{device} {}    // NOLINT(*-explicit-*)
  StageDevices(std::initializer_list<std::int32_t> devices)  // NOLINT(*-explicit-*)
      : devices_(devices) {}

  const std::vector<std::int32_t>& devices() const { return devices_; }

 private:
  std::vector<std::int32_t> devices_;
};

enum class PipelineSchedule : std::uint8_t { Grouped, Interleaved, Sequential };

/// What is recomputed for the backward pass: as the options of compile() say; all of a stage that
/// is not passed on (Recomputation::Pipeline); or what lies between a few points of each stage
/// (Recomputation::Standard).
enum class RecomputationMode : std::uint8_t {
  Auto,
  RecomputeThenBackpropagate,
  RecomputeAndBackpropagateInterleaved
};

struct OptimizerFunctionOutput {
  UpdateRule optimizer;  ///< not wrapped: a pipeline accumulates and averages by itself
  nn::Tensor loss;       ///< a float scalar
};
/// Gets the outputs of the last stage.
using OptimizerFunction = std::function<OptimizerFunctionOutput(const Tensors&)>;

struct PipelineOptions {
  /// Mini-batches of a run, at the end of which the weights are updated. Must be given.
  std::int64_t gradientAccumulationCount = 0;
  std::int64_t repeatCount = 1;  ///< runs per call
  Tensors inputs = {};           ///< of the first stage, in front of the infeed's; not changed
  data::InfeedQueue* infeed = nullptr;
  data::OutfeedQueue* outfeed = nullptr;     ///< gets the last stage's outputs
  OptimizerFunction optimizerFunction = {};  ///< empty: inference
  /// By stage; empty: a device for each function in turn.
  std::vector<StageDevices> deviceMapping = {};
  PipelineSchedule pipelineSchedule = PipelineSchedule::Grouped;
  RecomputationMode recomputationMode = RecomputationMode::Auto;
  /// In remote memory while they are not used. Optimizer state: not set means yes, unless the
  /// options of compile() say where it is.
  std::optional<bool> offloadWeightUpdateVariables = {};
  bool offloadActivations = false;
  bool offloadGradientAccumulationBuffers = false;
  bool offloadWeights = false;
  /// Every replica keeps a part.
  bool replicatedOptimizerStateSharding = false;
  bool replicatedWeightSharding = false;
  AccumulationDtype gradientAccumulationDtype = {};
  Reduction reductionMethod = Reduction::Sum;  ///< over mini-batches; over replicas: the mean
  bool outfeedLoss = false;                    ///< the outfeed gets the loss, and nothing else
  bool accumulateOutfeed = false;  ///< the outfeed gets the sum of a run, one element per run
  /// Elements of the infeed that make a mini-batch, one after the other. More than 1 only on one
  /// device under the Sequential schedule.
  std::int64_t batchSerializationIterations = 1;
  bool continuousWeightUpdates = false;  ///< see Options::continuousWeightUpdates
};

/// In a function given to compile(), once. Stage 0 gets the inputs, then the infeed's tensors;
/// every later stage exactly the outputs of the one before. Returns nothing, so that it can end the
/// function. Throws InvalidArgument for fewer than two stages and options that do not go together.
Tensors pipeline(const std::vector<PipelineStage>& stages, const PipelineOptions& options);

}  // namespace sluice
