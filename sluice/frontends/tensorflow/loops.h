// Loops that run on the devices: as in the TensorFlow port, a function with its loop becomes one
// callable. compile() makes a Model from the function, and one iteration of the loop is one
// micro-batch of that Model. Its Options therefore set the strategy, replicas, precision and
// profiling.
//
//   data::InfeedQueue infeed(dataset);
//   data::OutfeedQueue losses;
//   auto train = compile(net, Options(), [&](Tensors inputs) {
//     return repeat(100, [&](Tensors in) {
//       const nn::Tensor loss = nn::mseLoss(net.fc(in[0]), in[1]);
//       enqueue(losses, loss);
//       minimize(optim::SGD(0.1), loss);
//       return Tensors{};
//     }, {}, &infeed);
//   });
//   train();
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/api/model.h"
#include "sluice/api/options.h"
#include "sluice/data/queues.h"
#include "sluice/nn/helpers.h"
#include "sluice/optim/optimizer.h"

#pragma GCC visibility push(default)

namespace sluice {

// UpdateRule: the argument of minimize() and pipeline(). It is an optimizer, possibly wrapped so
// that gradients are accumulated over mini-batches or averaged over replicas. The wrappers have the
// names of the TensorFlow port.
//
//   minimize(CrossReplicaOptimizer(GradientAccumulationOptimizerV2(optim::Adam(1e-3), 8)), loss);

/// The type in which gradients are accumulated: either a type or a function of the weight. If
/// neither is given, or the function returns nothing, it is the weight's own type. If it is another
/// type, the optimizer must cast (Optimizer::castGradients).
class AccumulationDtype {
 public:
  AccumulationDtype() = default;
  AccumulationDtype(DType dtype)  // NOLINT(*-explicit-*)
      : type_([dtype](const ir::Variable&) { return dtype; }) {}
  AccumulationDtype(optim::AccumulationType type)  // NOLINT(*-explicit-*)
      : type_(std::move(type)) {}

  /// A copy of the optimizer that accumulates in this type.
  std::unique_ptr<optim::Optimizer> applyTo(const optim::Optimizer& optimizer) const;

 private:
  optim::AccumulationType type_;
};

struct AccumulationOptions {
  /// The optimizer's state is in remote memory between updates. Not set: yes, unless the options
  /// say where it is.
  std::optional<bool> offloadWeightUpdateVariables = {};
  AccumulationDtype dtype = {};
  Reduction reduction = Reduction::Sum;  ///< over the mini-batches of an update
};

class UpdateRule {
 public:
  /// A plain optimizer: there is one update per mini-batch. Keeps a copy.
  UpdateRule(const optim::Optimizer& optimizer)  // NOLINT(*-explicit-*)
      : optimizer_(optimizer.clone()) {}

  const optim::Optimizer& optimizer() const { return *optimizer_; }
  /// Mini-batches per update.
  std::int64_t accumulation() const { return accumulation_; }
  /// Not set: there is one update per mini-batch.
  const std::optional<AccumulationOptions>& accumulationOptions() const { return options_; }
  /// Whether gradients are averaged over replicas.
  bool crossesReplicas() const { return crossesReplicas_; }
  /// The name of the outermost wrapper; empty for a plain optimizer.
  const std::string& wrapper() const { return wrapper_; }

 protected:
  /// Throws InvalidArgument for fewer than one mini-batch and for a rule that already accumulates.
  void accumulate(std::string name, std::int64_t numMiniBatches, AccumulationOptions options);
  /// Throws InvalidArgument if it is called a second time.
  void crossReplicas(std::string name);
  /// Throws InvalidArgument for anything but SGD, plain or with momentum.
  void requireSgd(const std::string& name) const;

 private:
  std::shared_ptr<const optim::Optimizer> optimizer_;
  std::int64_t accumulation_ = 1;
  std::optional<AccumulationOptions> options_;
  bool crossesReplicas_ = false;
  std::string wrapper_;
};

/// Wraps any optimizer; there is one update every `numMiniBatches` iterations.
class GradientAccumulationOptimizerV2 : public UpdateRule {
 public:
  GradientAccumulationOptimizerV2(UpdateRule rule,
                                  std::int64_t numMiniBatches,
                                  AccumulationOptions options = {})
      : UpdateRule(std::move(rule)) {
    accumulate("GradientAccumulationOptimizerV2", numMiniBatches, std::move(options));
  }
};

/// Wraps SGD only, and keeps its state on the devices.
class GradientAccumulationOptimizer : public UpdateRule {
 public:
  GradientAccumulationOptimizer(UpdateRule rule, std::int64_t numMiniBatches)
      : UpdateRule(std::move(rule)) {
    requireSgd("GradientAccumulationOptimizer");
    accumulate(
        "GradientAccumulationOptimizer", numMiniBatches, {.offloadWeightUpdateVariables = false});
  }
};

/// Averages the gradients of replicas, once per update.
class CrossReplicaOptimizer : public UpdateRule {
 public:
  explicit CrossReplicaOptimizer(UpdateRule rule) : UpdateRule(std::move(rule)) {
    crossReplicas("CrossReplicaOptimizer");
  }
};

class CrossReplicaGradientAccumulationOptimizerV2 : public GradientAccumulationOptimizerV2 {
 public:
  CrossReplicaGradientAccumulationOptimizerV2(UpdateRule rule,
                                              std::int64_t numMiniBatches,
                                              AccumulationOptions options = {})
      : GradientAccumulationOptimizerV2(std::move(rule), numMiniBatches, std::move(options)) {
    crossReplicas("CrossReplicaGradientAccumulationOptimizerV2");
  }
};

class CrossReplicaGradientAccumulationOptimizer : public GradientAccumulationOptimizer {
 public:
  CrossReplicaGradientAccumulationOptimizer(UpdateRule rule, std::int64_t numMiniBatches)
      : GradientAccumulationOptimizer(std::move(rule), numMiniBatches) {
    crossReplicas("CrossReplicaGradientAccumulationOptimizer");
  }
};

using Tensors = std::vector<nn::Tensor>;

/// Runs the body `count` times. The first iteration gets the inputs, every later one the values
/// that the previous iteration returned; after them come the tensors of the next element of the
/// infeed. Returns the values of the last iteration. A compiled function may call it once. Anything
/// else that the body captures has the same value in all iterations. Throws InvalidArgument for a
/// count below 1 and for returned values whose types differ from those of the inputs.
Tensors repeat(std::int64_t count,
               const nn::Body& body,
               const Tensors& inputs = {},
               data::InfeedQueue* infeed = nullptr);

/// Puts these tensors into the queue in every iteration. The body of repeat may call it once.
/// Throws InvalidArgument outside the body.
void enqueue(data::OutfeedQueue& outfeed, const nn::Tensor& value);
void enqueue(data::OutfeedQueue& outfeed, const Tensors& values);
/// The same with names, for OutfeedQueue::dequeueNamed.
void enqueue(data::OutfeedQueue& outfeed, const std::map<std::string, nn::Tensor>& values);

/// Trains the weights of the module that the loss, a float scalar, depends on. The body of repeat
/// may call it once. Gradients of several mini-batches are summed, those of several replicas are
/// averaged. Throws InvalidArgument outside the body. compile() refuses a rule without
/// CrossReplicaOptimizer if there are replicas, and a rule whose number of mini-batches does not
/// divide the iterations.
void minimize(const UpdateRule& rule, const nn::Tensor& loss);

/// A function that contains a repeat() or a pipeline(), as one callable. It is traced at the first
/// call, for inputs of that call's types. Calls from several threads take turns. What the function
/// computes before and after the loop is computed once per call.
class CompiledFunction {
 public:
  CompiledFunction(nn::Module* module, const Options& options, nn::Body function);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&& other) noexcept;
  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;
  CompiledFunction& operator=(CompiledFunction&&) = delete;

  /// Runs the whole loop and returns what the function returns; with several replicas, the results
  /// of the first. Throws InvalidArgument if the types of the inputs differ from those of the first
  /// call, and what Model::run throws.
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  /// Traces and compiles for inputs of these types, as the first call otherwise does. Throws
  /// InvalidArgument if it was compiled for other types.
  void compile(std::span<const HostTensor> inputs);
  template <class... Inputs>
  std::vector<HostTensor> operator()(const Inputs&... inputs) {
    const std::array<HostTensor, sizeof...(Inputs)> all{inputs...};
    return run(all);
  }

  /// The Model made from the function. Throws InvalidArgument before the first call.
  Model& model();

 private:
  class Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

/// Compiles a function that uses the weights of the module. The module must live until the first
/// call has ended; later calls work without it.
CompiledFunction compile(nn::Module& module, const Options& options, nn::Body function);
/// Compiles a function without weights.
CompiledFunction compile(const Options& options, nn::Body function);

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
