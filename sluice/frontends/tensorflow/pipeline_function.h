// pipeline(): a pipeline of stage functions, as in the TensorFlow port. Each stage is a block on
// its device, and the stages form a PipelinedExecution of the function's Model. Results therefore
// have the same bits as those of trainingModel or inferenceModel with the same blocks.
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

#include "sluice/frontends/tensorflow/loops.h"
#include "sluice/frontends/tensorflow/update_rule.h"

#pragma GCC visibility push(default)

namespace sluice {

/// A function from the outputs of the previous stage to those of this one, or several functions
/// that run at the same time on different devices. Several functions all get the same arguments,
/// and their outputs are joined in order. They must not share weights or depend on each other.
class PipelineStage {
 public:
  template <std::convertible_to<nn::Body> F>
  PipelineStage(F function)  // NOLINT(*-explicit-*)
      : functions_{std::move(function)} {}
  PipelineStage(std::initializer_list<nn::Body> functions)  // NOLINT(*-explicit-*)
      : functions_(functions) {}
  explicit PipelineStage(std::vector<nn::Body> functions) : functions_(std::move(functions)) {}

  const std::vector<nn::Body>& functions() const { return functions_; }

 private:
  std::vector<nn::Body> functions_;
};

/// The device of a stage, or one device per function if the stage has several.
class StageDevices {
 public:
  StageDevices(std::int32_t device) : devices_{device} {}    // NOLINT(*-explicit-*)
  StageDevices(std::initializer_list<std::int32_t> devices)  // NOLINT(*-explicit-*)
      : devices_(devices) {}
  explicit StageDevices(std::vector<std::int32_t> devices) : devices_(std::move(devices)) {}

  const std::vector<std::int32_t>& devices() const { return devices_; }

 private:
  std::vector<std::int32_t> devices_;
};

enum class PipelineSchedule : std::uint8_t { Grouped, Interleaved, Sequential };

/// What is recomputed for the backward pass: what the options of compile() say; everything in a
/// stage that is not passed on (Recomputation::Pipeline); or everything between a few points of
/// each stage (Recomputation::Standard).
enum class RecomputationMode : std::uint8_t {
  Auto,
  RecomputeThenBackpropagate,
  RecomputeAndBackpropagateInterleaved
};

struct OptimizerFunctionOutput {
  UpdateRule optimizer;  ///< not wrapped: a pipeline accumulates and averages by itself
  nn::Tensor loss;       ///< a float scalar
};
/// Takes the outputs of the last stage.
using OptimizerFunction = std::function<OptimizerFunctionOutput(const Tensors&)>;

struct PipelineOptions {
  /// Mini-batches of a run; the weights are updated at its end. Must be set.
  std::int64_t gradientAccumulationCount = 0;
  std::int64_t repeatCount = 1;  ///< runs per call
  Tensors inputs = {};           ///< for stage 0, before the infeed's; not changed
  data::InfeedQueue* infeed = nullptr;
  data::OutfeedQueue* outfeed = nullptr;     ///< gets the last stage's outputs
  OptimizerFunction optimizerFunction = {};  ///< empty: inference
  /// One entry per stage; empty: each function gets the next device.
  std::vector<StageDevices> deviceMapping = {};
  PipelineSchedule pipelineSchedule = PipelineSchedule::Grouped;
  RecomputationMode recomputationMode = RecomputationMode::Auto;
  /// Keep these in remote memory while they are not used. For optimizer state, not set means yes,
  /// unless the options of compile() say where it is.
  std::optional<bool> offloadWeightUpdateVariables = {};
  bool offloadActivations = false;
  bool offloadGradientAccumulationBuffers = false;
  bool offloadWeights = false;
  /// Every replica keeps only a part of these.
  bool replicatedOptimizerStateSharding = false;
  bool replicatedWeightSharding = false;
  AccumulationDtype gradientAccumulationDtype = {};
  Reduction reductionMethod = Reduction::Sum;  ///< over mini-batches; over replicas: the mean
  bool outfeedLoss = false;                    ///< the outfeed gets only the loss
  bool accumulateOutfeed = false;  ///< the outfeed gets one element per run, the sum over the run
  /// Consecutive elements of the infeed that make one mini-batch. A number above 1 needs all stages
  /// on one device and the Sequential schedule.
  std::int64_t batchSerializationIterations = 1;
  bool continuousWeightUpdates = false;  ///< see Options::continuousWeightUpdates
};

/// A function given to compile() may call it once. Stage 0 gets the inputs, then the infeed's
/// tensors; every later stage gets exactly the outputs of the previous one. Returns an empty list,
/// so that `return pipeline(...)` can end the function. Throws InvalidArgument for fewer than two
/// stages and for options that contradict each other.
Tensors pipeline(const std::vector<PipelineStage>& stages, const PipelineOptions& options);

}  // namespace sluice

#pragma GCC visibility pop
