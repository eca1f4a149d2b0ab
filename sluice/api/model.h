// trainingModel and inferenceModel: a module wrapped for running. The module is traced once per
// input signature, compiled, and run on host tensors that hold a whole step: the first dimension of
// every input is micro-batch x gradientAccumulation x deviceIterations. What forward returns for
// one micro-batch comes back joined as the output mode says.
//
//   auto model = trainingModel(net, options, optim::AdamW(1e-3));
//   auto [prediction, loss] = model(images, labels);
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/api/batch.h"
#include "sluice/api/batch_layout.h"
#include "sluice/api/builder.h"
#include "sluice/api/forward.h"
#include "sluice/api/graph_source.h"
#include "sluice/api/inputs.h"
#include "sluice/api/options.h"
#include "sluice/api/pending.h"
#include "sluice/api/session.h"
#include "sluice/api/step.h"
#include "sluice/api/training_state.h"
#include "sluice/nn/module.h"
#include "sluice/nn/state_dict.h"
#include "sluice/nn/tracer.h"
#include "sluice/optim/lr_schedule.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/sgd.h"
#include "sluice/profile/step_recorder.h"
#include "sluice/runtime/non_finite.h"
#include "sluice/runtime/turn.h"
#include "sluice/tensor/named_tensors.h"

namespace sluice::data {
class InfeedQueue;
class OutfeedQueue;
}  // namespace sluice::data

namespace sluice {

using profile::Latency;
using runtime::FloatingPointError;
using runtime::NonFinite;

/// What every wrapped model does; TypedModel adds the types of forward.
///
/// Any thread may call a model. Models of one module or Builder share their state, so their calls
/// take turns: in the order in which they came, each with the bits of the same calls made one after
/// the other. A call waits for a step that runs asynchronously, too. Only making, moving and ending
/// the object itself is for one thread. What a step calls (a host function, a feed, a sink) must
/// not use the model: that throws InvalidArgument.
///
/// A model may outlive its module: what was compiled still runs, and the state can be saved; what
/// needs the module throws InvalidArgument. So does every use of a model that was moved from or
/// destroyed, with these exceptions: isCompiled, isAttachedToDevice and cancel are false, destroy
/// does nothing, and a destroyed model still has its options and microBatchesPerStep. Results,
/// batches and state dictionaries own their memory.
class Model {
 public:
  /// A null optimizer: inference. Freezes the options. Throws InvalidArgument for a second training
  /// model of a module while the first one lives.
  Model(std::unique_ptr<GraphSource> source,
        const Options& options,
        std::unique_ptr<optim::Optimizer> optimizer);
  Model(Model&&) = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  Model& operator=(Model&&) = delete;
  /// Waits for its turn. In a function that a step calls which shares the state it does not: then
  /// the programs go after the step.
  ~Model();

  /// Ends the call of this model that runs now, synchronously or not, from any thread: that call
  /// throws Cancelled, between two kernels of its step or two phases of its compilation, and the
  /// state stays as Options::undoMemory says. Calls that wait for their turn go on waiting. False:
  /// no call of this model runs. It works by request: the call may also end with its results.
  bool cancel();

  /// Keeps calls of other threads waiting while it lives, for calls that belong together. runAsync
  /// is refused meanwhile: its step would belong to another thread.
  [[nodiscard]] runtime::Turn::Hold exclusive() const;

  /// Ends the model: its programs go, and if it is the last of its module (or Builder) the devices,
  /// too. A module's weights and buffers then are its own, for models on other devices, and the
  /// state of the optimizer is lost. Other functions throw InvalidArgument from now on.
  void destroy();

  /// One call: inputs of a whole step, outputs by the output mode. The tensors of nested inputs
  /// come one behind the other. Compiles at the first call and again for another signature. Throws
  /// InvalidArgument for inputs that do not fit. A call that fails in the middle of a step, such as
  /// by a label out of range, has not happened: see Options::undoMemory. With synthetic data the
  /// inputs say only which shapes they have, and after the first compile none are needed.
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  std::vector<HostTensor> run(std::initializer_list<HostTensor> inputs) {
    return run(std::span(inputs.begin(), inputs.size()));
  }
  /// The same for nested inputs, by position or by name, of which some may be left out; the outputs
  /// come as the model's function returned them, a list of a Builder's. Throws InvalidArgument for
  /// a name that is unknown or given twice, an input that is missing, and another structure than
  /// the one that the model was compiled for.
  HostStructure run(const Inputs& inputs);
  /// A batch of a DataLoader: as above, or, for the rest of an epoch, a call of its own shape.
  std::vector<HostTensor> run(const Batch& batch);
  /// A call whose micro-batches come from one queue and whose outputs go to another while it runs:
  /// every element of the infeed is a micro-batch. Throws InvalidArgument with anchored tensors or
  /// synthetic data, and as the queues do.
  void run(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed);
  /// A call whose inputs, of these types per micro-batch, come from a feed and whose outputs, with
  /// the anchors behind them, go to a sink as the output mode says.
  void run(std::span<const TensorType> inputs,
           std::unique_ptr<runtime::HostFeed> feed,
           std::unique_ptr<ResultSink> sink);
  /// By name: what addInputTensor and addOutputTensor of a Builder were given; of a module what it
  /// declares or else input0, input1, ..., and output0, ... Throws as the above.
  NamedTensors run(const NamedTensors& inputs);
  /// The same in another thread. All errors arrive in get() of the result, whose destructor waits.
  /// Any other use of this or another model of the same module waits for the end of the step; so
  /// does the next runAsync, and this one for a step before it. The inputs must not be changed
  /// meanwhile.
  [[nodiscard]] Pending runAsync(std::vector<HostTensor> inputs);
  [[nodiscard]] Pending runAsync(const Inputs& inputs);
  /// The queues must live until the step has ended.
  [[nodiscard]] Pending runAsync(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed);
  /// Compiles for these inputs without running.
  void compile(std::span<const HostTensor> inputs);
  void compile(const Inputs& inputs);
  /// The same for inputs of these types per micro-batch.
  void compile(std::span<const TensorType> inputs);
  bool isCompiled() const;
  /// Seconds spent compiling so far.
  double compilationTime() const;

  /// Tensors that anchorTensor can name, once compiled: results of ops by the path of their module,
  /// or a Builder's ids; when training also those of the backward pass, and "Gradient___" with the
  /// name of a weight: its gradient in one micro-batch.
  std::vector<std::string> getTensorNames() const;
  /// The anchored tensor of the last call. Throws InvalidArgument for an unknown name or before the
  /// first call.
  HostTensor getAnchoredTensor(std::string_view shortName) const;

  /// Frees the devices of all models of the module; their state moves to the host and stays
  /// readable. The next call attaches again.
  void detachFromDevice();
  /// Throws InvalidArgument with ConnectionType::Never or before the first compile.
  void attachToDevice();
  /// ConnectionType::Always: from the start; OnDemand: once compiled; Never: no.
  bool isAttachedToDevice() const;
  /// Parameters are read from and written to the memory of the devices directly, and all models of
  /// a module share that memory: nothing can be out of date once no step runs. So these only wait.
  void copyWeightsToHost() { static_cast<void>(enter()); }
  void copyWeightsToDevice() { static_cast<void>(enter()); }

  /// The buffers of Options::updatableNamedBuffers, as they are on the host. Throws InvalidArgument
  /// if there are none.
  void copyNamedBuffersToDevice();

  /// What the next call with these inputs would meet first that is not finite: an input, a
  /// variable, or the op that makes a NaN or an infinity out of numbers; nothing if all stays
  /// finite. Compiles a checked program and runs it; weights, state and counts stay as they are.
  std::optional<NonFinite> findFirstNonFinite(std::span<const HostTensor> inputs);
  std::optional<NonFinite> findFirstNonFinite(std::initializer_list<HostTensor> inputs) {
    return findFirstNonFinite(std::span(inputs.begin(), inputs.size()));
  }

  /// Frozen, as is the object that was given.
  const Options& options() const;
  /// How calls are cut into micro-batches; its micro-batch is that of the newest program, 1 before.
  BatchLayout batchLayout() const;
  Session& session();
  /// Throws InvalidArgument if the model was made of a Builder, and once the module is gone.
  nn::Module& module();
  /// Micro-batches per call and replica.
  std::int64_t microBatchesPerStep() const;
  /// The module's table, then what was compiled: bytes, kernels.
  std::string summary() const;
  /// Of the newest program: batch layout, stages with devices, blocks, work and bytes, the schedule
  /// with its bound, idle time and stash depths, and the warnings.
  std::string explain() const;
  /// The forward pass for one micro-batch as the bytes of an ONNX model, in its inference form,
  /// with the weights of now. Throws InvalidArgument before the first compile.
  std::string getModelProto() const;
  /// The newest compiled program, and how it came about; valid until the model is destroyed.
  const program::Program& program() const { return compiled().program->program(); }
  const CompiledProgram& compiled() const;

  /// How long a micro-batch of the newest call took: to its devices, through them, back, and in
  /// all (see profile/latency.h). Throws InvalidArgument unless the options enable profiling and
  /// the model was called.
  Latency getHostDeviceLatency() const { return latencies().hostDevice; }
  Latency getComputeLatency() const { return latencies().compute; }
  Latency getDeviceHostLatency() const { return latencies().deviceHost; }
  Latency getLatency() const { return latencies().roundTrip; }

  /// Cycles that the newest call took on the devices: from the start of its first task to the end
  /// of its last, nanoseconds for a CPU. Throws InvalidArgument unless the options have
  /// logCycleCount and the model was called.
  std::int64_t cycleCount() const;

  /// Weight updates made so far.
  std::int64_t updates() const;
  void setLrSchedule(optim::LrSchedule schedule);
  /// New values of variable attributes take effect at the next call; a change of the optimizer that
  /// was given to the model does not. Throws InvalidArgument for another rule or, once compiled,
  /// another value of a constant attribute.
  void setOptimizer(const optim::Optimizer& optimizer);
  /// As it is now; null: the model is for inference.
  std::shared_ptr<const optim::Optimizer> optimizer() const;

  /// Weights, then buffers, as they are declared.
  std::vector<ir::Variable> variables() const;
  /// Their values by PyTorch's names.
  NamedTensors stateDict() const;
  /// Throws InvalidArgument for a dictionary that does not fit, and then nothing has changed. This
  /// and the next two may come before the first compile.
  nn::UnmatchedNames loadStateDict(const NamedTensors& state, nn::Strict strict = nn::Strict::Yes);
  /// State, attributes and number of updates of the optimizer; see OptimizerStateDict.
  OptimizerStateDict optimizerStateDict() const;
  /// Throws InvalidArgument for a dictionary that is empty, not of this library, of another rule,
  /// other weights or other types, and for another value of a constant attribute once compiled;
  /// then nothing has changed.
  void loadOptimizerStateDict(const OptimizerStateDict& state);
  /// Names the training that this model began, or goes on with after loadTrainingState; for files.
  std::string runId() const;
  /// What random ops draw from in the next call.
  RngState rngState() const;
  void setRngState(const RngState& state);
  /// All of the above at once; loaded whole or not at all. Throws InvalidArgument for an inference
  /// model.
  TrainingState trainingState() const;
  void loadTrainingState(const TrainingState& state);

 private:
  friend class CompiledFunction;  // its call is one call of its model

  /// A dictionary of the optimizer that was checked.
  struct OptimizerLoad {
    std::unique_ptr<optim::Optimizer> optimizer;
    std::int64_t updates = 0;
  };

  using Signature = Structure<TensorType>;  // per micro-batch; a list of all inputs
  struct Entry {
    Signature signature;
    BatchLayout layout;
    std::size_t outputs = 0;        // of the program; anchors come behind them
    Structure<std::size_t> result;  // the outputs as the model's function returned them
    CompiledProgram compiled;
    std::optional<std::size_t> loss = {};  // the drain of what is minimised, if it has one
  };

  bool training() const { return optimizer_ != nullptr; }
  bool hasPrograms() const { return !programs_.empty(); }
  /// Every public function begins with it: waits for the turn of the calling thread. Throws
  /// InvalidArgument once the model is destroyed or moved from.
  runtime::Turn::Hold enter() const;
  /// The same for a step that goes on in another thread. Throws InvalidArgument inside exclusive().
  runtime::Turn::Hold enterAlone() const;
  void requireNotMoved() const;
  void joinSession();
  std::vector<Session::ProgramPtr> programs() const;
  /// Throws InvalidArgument once the model is destroyed.
  Session& alive() const;
  bool synthetic() const { return options_.batch().syntheticData != SyntheticDataMode::Off; }
  /// Weights are updated at every micro-batch, and a call is one round.
  bool continuous() const;
  std::int32_t microBatchesPerRound(const BatchLayout& layout) const;
  /// Tensors, or types, one per input, or as the newest program has them.
  HostStructure arranged(std::span<const HostTensor> inputs) const;
  Signature arranged(std::span<const TensorType> inputs) const;
  template <class L>
  Structure<L> arrangedLeaves(std::span<const L> leaves) const;
  HostStructure bound(const Inputs& inputs) const;
  Signature signatureOf(const HostStructure& inputs, const BatchLayout& layout) const;
  /// Of a micro-batch.
  static std::int64_t rowsOf(const Signature& signature);
  void requireSameKind(const Signature& signature) const;
  /// Throws InvalidArgument for a training step without any.
  void requireRows(const Signature& signature) const;
  Entry& entryFor(const Signature& signature, BatchLayout layout);
  Entry makeEntry(const Signature& signature,
                  const BatchLayout& layout,
                  const Options& options,
                  CompileProgress& progress);
  /// What the compiler is asked for; takes the graph and the names of its tensors.
  compiler::CompileRequest requestOf(TracedGraph& traced,
                                     const BatchLayout& layout,
                                     const Options& options) const;
  void requireNamedBuffers();
  std::vector<BatchLayout> outputLayouts(std::size_t outputs, const BatchLayout& layout) const;
  void writeStepScalars();
  void requireTraining(std::string_view what) const;
  HostTensor valueOf(const ir::Variable& variable) const;
  /// What the optimizer keeps; of weights that no program uses, too.
  std::vector<ir::Variable> optimizerState(const optim::Optimizer& optimizer) const;
  OptimizerLoad checked(const OptimizerStateDict& state) const;
  void commit(OptimizerLoad load, const NamedTensors& state);
  void requireLoadedState(const ir::Graph& graph) const;
  std::string programName() const;
  profile::Latencies latencies() const;
  /// Before every step.
  void beginStep();
  std::shared_ptr<Step> prepare(std::vector<HostTensor> inputs, const Entry& entry);
  std::shared_ptr<Step> prepare(data::InfeedQueue& infeed,
                                data::OutfeedQueue& outfeed,
                                const Entry& entry);
  Entry& entryOf(const HostStructure& inputs, const BatchLayout& layout);
  Entry& entryOf(data::InfeedQueue& infeed, const data::OutfeedQueue& outfeed);
  Entry& entryOf(const Signature& signature);
  std::vector<HostTensor> runStep(const std::shared_ptr<Step>& step, Entry& entry);
  Pending startStep(std::shared_ptr<Step> step, Entry& entry, runtime::Turn::Hold turn);
  runtime::StepArgs argsOf(Step& step, const Entry& entry) const;
  std::function<void()> finisher(std::shared_ptr<Step> step, const Entry& entry) const;
  std::int32_t rounds(const BatchLayout& layout) const;

  std::unique_ptr<GraphSource> source_;
  Options options_;
  BatchLayout layout_;                           // of the options
  std::shared_ptr<optim::Optimizer> optimizer_;  // null: inference
  optim::LrSchedule schedule_;
  std::shared_ptr<runtime::Turn> turn_;  // the session's; guards all below; null: moved from
  std::shared_ptr<Session> session_;     // of all models of one module; null: destroyed
  bool compiling_ = false;
  std::vector<std::unique_ptr<Entry>> programs_;
  std::shared_ptr<StepCounts> counts_ = std::make_shared<StepCounts>();  // shared with steps
  std::uint64_t rngSeed_ = 0;
  std::string runId_ = makeRunId();
  bool stateLoaded_ = false;  // of the optimizer, before the first compile
  double compilationSeconds_ = 0;
  std::shared_ptr<profile::StepRecorder> recorder_;  // shared with steps; null: no profile
};

/// A Model that is called with what Net::forward takes and returns what that returns, with host
/// tensors for symbolic ones. Positions come first, then inputs by name.
template <class Net>
class TypedModel : public Model {
  using Traits = detail::ForwardOf<Net>;

 public:
  /// An `owner` keeps the module alive.
  TypedModel(Net& net,
             const Options& options,
             std::unique_ptr<optim::Optimizer> optimizer,
             std::shared_ptr<Net> owner = nullptr)
      : Model(
            moduleSource(
                net, detail::bindForward(net), detail::inputsOf(net), {.owner = std::move(owner)}),
            options,
            std::move(optimizer)) {}

  template <class... Args>
  requires(sizeof...(Args) <= Traits::kArity &&
           ((std::is_same_v<Args, Keyword> ||
             std::is_convertible_v<const Args&, HostStructure>)&&...)) typename Traits::Host
  operator()(const Args&... inputs) {
    return build<typename Traits::Host>(run(Inputs(inputs...)));
  }
};

namespace detail {

void requireGivenModule(const nn::Module* module);

/// The module whose ownership a caller gives to a model; throws InvalidArgument if it is null.
template <class Net>
TypedModel<Net> owningModel(std::shared_ptr<Net> net,
                            const Options& options,
                            std::unique_ptr<optim::Optimizer> optimizer) {
  requireGivenModule(net.get());
  Net& module = *net;
  return TypedModel<Net>(module, options, std::move(optimizer), std::move(net));
}

}  // namespace detail

/// For training: the last value that forward returns is the loss, a float scalar. Runs
/// deviceIterations updates per call, each over gradientAccumulation micro-batches. The module must
/// live as long as something is to be compiled; a std::shared_ptr or std::unique_ptr in its place
/// makes the model keep it, for instance in a function that makes a module and returns its model.
template <class Net, class Rule>
TypedModel<Net> trainingModel(Net& net, const Options& options, const Rule& optimizer) {
  return TypedModel<Net>(net, options, optimizer.clone());
}

template <class Net, class Rule>
TypedModel<Net> trainingModel(std::shared_ptr<Net> net, const Options& options, const Rule& rule) {
  return detail::owningModel(std::move(net), options, rule.clone());
}
template <class Net, class Rule>
TypedModel<Net> trainingModel(std::unique_ptr<Net> net, const Options& options, const Rule& rule) {
  return detail::owningModel(std::shared_ptr<Net>(std::move(net)), options, rule.clone());
}

/// With plain SGD at a learning rate of 0.01.
template <class Net>
TypedModel<Net> trainingModel(Net& net, const Options& options) {
  return trainingModel(net, options, optim::SGD(0.01));
}

/// For inference and validation; shares the weights with a training model of the same module.
template <class Net>
TypedModel<Net> inferenceModel(Net& net, const Options& options) {
  return TypedModel<Net>(net, options, nullptr);
}
template <class Net>
TypedModel<Net> inferenceModel(std::shared_ptr<Net> net, const Options& options) {
  return detail::owningModel(std::move(net), options, nullptr);
}
template <class Net>
TypedModel<Net> inferenceModel(std::unique_ptr<Net> net, const Options& options) {
  return detail::owningModel(std::shared_ptr<Net>(std::move(net)), options, nullptr);
}

/// Of a Builder's graph as it is now. Inputs and outputs are those that were added to it, in order;
/// the loss need not be an output. Models of one Builder share its weights.
template <class Rule>
Model trainingModel(Builder& builder,
                    const TensorId& loss,
                    const Options& options,
                    const Rule& optimizer) {
  return {builderSource(builder, loss), options, optimizer.clone()};
}
inline Model inferenceModel(Builder& builder, const Options& options) {
  return {builderSource(builder, std::nullopt), options, nullptr};
}

}  // namespace sluice
