// trainingModel and inferenceModel: a module wrapped for running. The module is traced once per
// input signature, compiled, and run on host tensors that hold a whole step: the first dimension of
// every input is micro-batch x gradientAccumulation x deviceIterations. A call returns what forward
// returned for the micro-batches, joined as the output mode says.
//
//   auto model = trainingModel(net, options, optim::AdamW(1e-3));
//   auto [prediction, loss] = model(images, labels);
#pragma once

#include <cstdint>
#include <filesystem>
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

#include "sluice/api/inputs.h"
#include "sluice/api/options.h"
#include "sluice/api/training_state.h"
#include "sluice/nn/module.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/optimizers.h"
#include "sluice/profile/latency.h"
#include "sluice/runtime/non_finite.h"
#include "sluice/runtime/turn.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::data {
class InfeedQueue;
class OutfeedQueue;
}  // namespace sluice::data
namespace sluice::onnx {
enum class Exact : std::uint8_t;
}
namespace sluice::program {
struct Program;
}
namespace sluice::runtime {
class HostFeed;
}

namespace sluice {

using profile::Latency;
using runtime::FloatingPointError;
using runtime::NonFinite;

/// What Model::save writes.
struct SaveOptions {
  /// The values of weights, buffers and optimizer, without which only a model of the same module
  /// can use the file (Model::loadExecutable).
  bool exportModel = true;
  bool saveRngState = true;  ///< else a loaded model starts its random numbers anew
};

/// What happens to an executable that was compiled for other devices, by another version of Sluice
/// or with another tuning table.
enum class OtherTarget : std::uint8_t { Recompile, Refuse };

struct Batch;
struct BatchLayout;
struct CompiledProgram;
class GraphSource;
class ModelCore;
class ResultSink;
class Session;

/// How long a step takes on the target of simulated devices.
struct SimulatedStep {
  std::string target;       ///< "ipu2"
  std::int64_t cycles = 0;  ///< of the target's clock
  double seconds = 0;
};

/// A change of the strategy and what it would give.
struct Suggestion {
  std::string change;  ///< "move block B3 to device 2"
  Strategy strategy;   ///< with the change, for Options::setExecutionStrategy
  double seconds = 0;  ///< of a step
  double faster = 0;   ///< the share of the step's time that it saves
};

// Plans: ways to run a model on some devices of limited memory. Model::findPlan makes many of them
// with the compiler, simulates each, and reports what it found.
//
//   options.device("sim@measured").memoryPerDevice("64MiB");
//   auto model = trainingModel(net, options, optim::AdamW(1e-3));
//   const PlanReport found = model.findPlan(types, {.devices = 4});
//   if (found.best) found.best->choice.applyTo(otherOptions);

/// The settings in which plans differ.
struct PlanChoice {
  Strategy strategy = PipelinedExecution::automatic(1);
  Recomputation recomputation = Recomputation::None;
  bool optimizerOffChip = false;  ///< its state is in remote memory between its uses
  bool weightsOffChip = false;    ///< and so are weights and accumulators
  /// Copies of the model, each on devices of its own, that share the micro-batches of a step.
  std::int64_t replicas = 1;
  std::int64_t microBatches = 0;  ///< of one replica, if there are several; 0: as options have it
  bool training = true;           ///< whether these are gradientAccumulation or deviceIterations

  void applyTo(Options& options) const;
  /// On one line, for people.
  std::string str() const;
  /// The lines that make a program run this way, for an object `options`.
  std::vector<std::string> cppLines() const;
  std::vector<std::string> pythonLines() const;

  bool operator==(const PlanChoice&) const = default;
};

/// The memory of one device: its state, and what changes hands within a step.
struct PlannedBytes {
  std::size_t state = 0;
  std::size_t transient = 0;
  std::size_t own = 0;  ///< what the kind of device takes for itself

  std::size_t total() const { return state + transient + own; }
  bool operator==(const PlannedBytes&) const = default;
};

/// A choice that was planned and simulated.
struct Plan {
  PlanChoice choice;
  double seconds = 0;                 ///< of a step, in virtual time
  std::vector<double> busy;           ///< by device of one replica: seconds in which it computes
  std::vector<PlannedBytes> devices;  ///< those of one replica
  std::size_t remoteBytes = 0;        ///< of remote memory, of one replica
  /// By device of the first replica, in nanoseconds.
  std::vector<std::vector<schedule::Work>> timeline = {};

  std::size_t largestDevice() const;
};

/// How a trial ended.
enum class PlanOutcome : std::uint8_t { Fits, TooLarge, Impossible };

struct TriedPlan {
  PlanChoice choice;
  PlanOutcome outcome = PlanOutcome::Fits;
  double seconds = 0;       ///< TooLarge: if there were room; 0: not known
  std::size_t largest = 0;  ///< bytes of the largest device; 0: not known
  std::string reason = {};  ///< Impossible: why
};

/// What else would help, and what it would give.
struct PlanChange {
  std::string text;
  double seconds = 0;  ///< of a step
};

struct PlanProgress {
  std::size_t tried = 0;
  std::size_t fitting = 0;
  double bestSeconds = 0;  ///< 0: none fits yet
};

struct PlanSettings {
  std::int64_t devices = 1;
  /// No trial begins later than this. The search ends with what it has.
  double seconds = 10;
  /// Also tries plans that do more work than one which fits and is otherwise the same.
  bool exhaustive = false;
  /// Also tries replicas, unless the options of the model ask for some themselves. Replicas add
  /// up gradients in another order than one model does, so the results differ in their rounding.
  bool replicas = true;
  std::function<void(const PlanProgress&)> progress = {};
  /// Asked before each trial: true ends the search with what it has.
  std::function<bool()> stop = {};
};

/// What no plan can do faster than the bound.
enum class BoundedBy : std::uint8_t {
  Work,  ///< all kernels of the step, shared out evenly among the devices
  Chain  ///< a kernel that runs once per micro-batch, with what comes before and after it
};

struct PlanReport {
  std::string target;        ///< whose times these are
  std::int64_t devices = 1;  ///< that a plan may use
  std::size_t memoryPerDevice = 0;
  std::int64_t microBatches = 1;  ///< of a step
  bool training = false;
  std::optional<Plan> best;  ///< the fastest of those that fit; none: nothing fits
  /// Seconds that every plan needs, tried or not: its kernels have to run, on so many devices and
  /// one after the other where one reads what another makes. 0: not known.
  double bound = 0;
  BoundedBy boundedBy = BoundedBy::Work;
  std::vector<TriedPlan> tried;  ///< in the order of the search
  bool complete = true;          ///< false: the time was up
  /// If nothing fits: the least memory per device with which a plan was made, and that plan.
  std::optional<std::size_t> smallestBudget = {};
  std::optional<PlanChoice> smallest = {};
  std::vector<PlanChange> changes = {};
};

/// What every wrapped model does; TypedModel adds the types of forward.
///
/// Any thread may call a model. Models of one module or Builder share their state, so their calls
/// take turns in the order in which they were made, and give the same bits as calls from one
/// thread. A call also waits for a step that runs asynchronously. The object itself must be made,
/// moved and destroyed by one thread at a time. Code that a step calls (a host function, a feed, a
/// sink) must not use the model: that throws InvalidArgument.
///
/// A model may outlive its module: compiled programs still run, and the state can be saved, but
/// functions that need the module throw InvalidArgument. Every use of a model that was moved from
/// or destroyed throws InvalidArgument, with these exceptions: isCompiled, isAttachedToDevice and
/// cancel return false, destroy does nothing, and a destroyed model still has its options and
/// microBatchesPerStep. Results, batches and state dictionaries own their memory.
class Model {
 public:
  /// Freezes the options. Without an optimizer (null) the model is for inference. Throws
  /// InvalidArgument for a second training model of a module while the first one exists.
  Model(std::unique_ptr<GraphSource> source,
        const Options& options,
        std::unique_ptr<optim::Optimizer> optimizer);
  Model(Model&& other) noexcept;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  Model& operator=(Model&&) = delete;
  /// Waits for its turn. If it is called from code that a step with the same state calls, it does
  /// not wait, and the programs are freed after that step.
  ~Model();

  /// Requests the end of this model's running call, synchronous or not; any thread may do so. The
  /// call throws Cancelled between two kernels of its step or two phases of its compilation, and
  /// Options::undoMemory says what happens to the state. The call may also end normally with its
  /// results. Calls that wait for their turn keep waiting. Returns false if no call of this model
  /// is running.
  bool cancel();

  /// Makes calls from other threads wait while the returned object lives, for calls that belong
  /// together. runAsync is refused during that time, because its step would belong to another
  /// thread.
  [[nodiscard]] runtime::Turn::Hold exclusive() const;

  /// Calls `f` in the first of the processes that run the model, and returns its result in all of
  /// them; all must make this call. `what` names it in errors. Throws what `f` throws there, and
  /// FileError in the others.
  std::string inFirstProcess(std::string_view what, const std::function<std::string()>& f) const;
  /// The largest of the numbers that the processes that run the model give; all must make this
  /// call. `what` names it in errors.
  std::int64_t largestInAllProcesses(std::string_view what, std::int64_t number) const;

  /// Ends the model and frees its programs; the last model of a module or Builder also frees the
  /// devices. The module then holds its own weights and buffers, so that models on other devices
  /// can use them, and the state of the optimizer is lost. Other functions throw InvalidArgument
  /// from now on.
  void destroy();

  /// Makes one call. The inputs are those of a whole step, and the outputs are joined as the output
  /// mode says. The tensors of nested inputs come one after the other. The first call compiles, and
  /// so does every call with a new signature. Throws InvalidArgument for inputs that do not fit. A
  /// call that fails in the middle of a step, for instance because a label is out of range, is
  /// undone: see Options::undoMemory. With synthetic data only the shapes of the inputs matter, and
  /// after the first compile no inputs are needed.
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  std::vector<HostTensor> run(std::initializer_list<HostTensor> inputs) {
    return run(std::span(inputs.begin(), inputs.size()));
  }
  /// The same for nested inputs, given by position or by name; some may be left out. The outputs
  /// have the structure that the model's function returned; for a Builder they are a list. Throws
  /// InvalidArgument for a name that is unknown or given twice, for a missing input, and for a
  /// structure other than the one that the model was compiled for.
  HostStructure run(const Inputs& inputs);
  /// Runs a batch of a DataLoader. A batch from the end of an epoch may be a call with other
  /// counts.
  std::vector<HostTensor> run(const Batch& batch);
  /// Makes one call that takes its micro-batches from one queue and puts its outputs into another
  /// while it runs. Every element of the infeed is a micro-batch. Throws InvalidArgument if there
  /// are anchored tensors or synthetic data, and what the queues throw.
  void run(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed);
  /// Makes one call that takes its inputs, which have these types per micro-batch, from a feed. Its
  /// outputs and then the anchors go to a sink, as the output mode says.
  void run(std::span<const TensorType> inputs,
           std::unique_ptr<runtime::HostFeed> feed,
           std::unique_ptr<ResultSink> sink);
  /// The same with a sink that is made for the program of these inputs, its outputs and anchors,
  /// how each is joined, and the number of outputs without the anchors.
  using MakeSink = std::function<std::unique_ptr<ResultSink>(
      const program::Program&, std::vector<BatchLayout>, std::size_t)>;
  void run(std::span<const TensorType> inputs,
           std::unique_ptr<runtime::HostFeed> feed,
           const MakeSink& makeSink);
  /// The same with inputs and outputs by name. A Builder's names are those given to addInputTensor
  /// and addOutputTensor. A module's are those it declares, else input0, input1, ... and output0,
  /// ... Throws what the functions above throw.
  NamedTensors run(const NamedTensors& inputs);
  /// Makes the call in another thread. The result's get() throws all errors, and its destructor
  /// waits for the step. Any other use of this model, or of another model of the same module, waits
  /// for the end of the step; that includes the next runAsync. The inputs must not change until the
  /// step has ended.
  [[nodiscard]] Pending runAsync(std::vector<HostTensor> inputs);
  [[nodiscard]] Pending runAsync(std::initializer_list<HostTensor> inputs) {
    return runAsync(std::vector<HostTensor>(inputs));
  }
  [[nodiscard]] Pending runAsync(const Inputs& inputs);
  /// The queues must live until the step has ended.
  [[nodiscard]] Pending runAsync(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed);
  /// Compiles for these inputs without running.
  void compile(std::span<const HostTensor> inputs);
  void compile(const Inputs& inputs);
  /// The same for inputs of these types per micro-batch.
  void compile(std::span<const TensorType> inputs);
  /// Calls the traced function for these inputs again and compiles what it does now; the state
  /// stays.
  void compileAgain(std::span<const HostTensor> inputs);
  /// Throws what compile(inputs) would throw before it plans memory: errors in annotations, loss,
  /// strategy and options. It does not check that the memory suffices.
  void check(std::span<const TensorType> inputs);
  bool isCompiled() const;
  /// Seconds spent compiling so far.
  double compilationTime() const;

  /// The tensors that anchorTensor can name, known once the model is compiled: results of ops by
  /// the path of their module, or a Builder's ids. A training model also has the tensors of the
  /// backward pass; "Gradient___" with the name of a weight is its gradient in one micro-batch.
  std::vector<std::string> getTensorNames() const;
  /// The anchored tensor of the last call. Throws InvalidArgument for an unknown name or before the
  /// first call.
  HostTensor getAnchoredTensor(std::string_view shortName) const;

  /// Frees the devices of all models of the module; their state moves to the host and stays
  /// readable. The next call attaches again.
  void detachFromDevice();
  /// Throws InvalidArgument with ConnectionType::Never, and before the first compile.
  void attachToDevice();
  /// Whether devices are attached: from the start with ConnectionType::Always, once compiled with
  /// OnDemand, and not at all with Never.
  bool isAttachedToDevice() const;
  /// These two functions only wait for their turn. Parameters are read from and written to the
  /// memory of the devices directly, and all models of a module share that memory, so no copy can
  /// be out of date while no step runs.
  void copyWeightsToHost();
  void copyWeightsToDevice();

  /// Copies the buffers named by Options::updatableNamedBuffers from the host to the devices.
  /// Throws InvalidArgument if there are none.
  void copyNamedBuffersToDevice();

  /// The first thing that is not finite in a call with these inputs: an input, a variable, or the
  /// op that makes a NaN or an infinity from finite numbers. Returns nullopt if everything stays
  /// finite. Compiles a checked program and runs it; weights, state and counts do not change.
  std::optional<NonFinite> findFirstNonFinite(std::span<const HostTensor> inputs);
  std::optional<NonFinite> findFirstNonFinite(std::initializer_list<HostTensor> inputs) {
    return findFirstNonFinite(std::span(inputs.begin(), inputs.size()));
  }

  /// The options are frozen, and so is the object that was given to the model.
  const Options& options() const;
  /// How calls are cut into micro-batches. The micro-batch size is that of the newest program, or 1
  /// before the first compile.
  BatchLayout batchLayout() const;
  /// The three functions with types that are not public are for the library's own front ends and
  /// tests: this one, program() and compiled().
  Session& session();
  /// Throws InvalidArgument if the model was made from a Builder, and once the module is gone.
  nn::Module& module();
  /// Micro-batches per call and replica.
  std::int64_t microBatchesPerStep() const;
  /// The module's table, then the bytes and kernels of the compiled programs.
  std::string summary() const;
  /// Describes the newest program: its batch layout; its stages with their devices, blocks, work
  /// and bytes; its schedule with the bound, the idle time and the stash depths; and the warnings.
  std::string explain() const;
  /// The forward pass for one micro-batch as the bytes of an ONNX model, in its inference form and
  /// with the current weights: for other tools, or (Exact::Yes) to be read back bit for bit. Throws
  /// InvalidArgument before the first compile.
  std::string getModelProto() const;
  std::string getModelProto(onnx::Exact exact) const;
  /// The newest compiled program, alone or with its plan and warnings; valid until the model is
  /// destroyed.
  const program::Program& program() const;
  const CompiledProgram& compiled() const;

  /// Writes all compiled programs, with everything that running them needs, to one file
  /// (docs/executable.md); `sluice::load` reads it, in any process. A folder gets a file that is
  /// called after the model. Throws InvalidArgument before the first compile, Unsupported, naming
  /// the op, for a model that calls functions of the host, and FileError.
  void save(const std::filesystem::path& path, const SaveOptions& options = {}) const;
  /// Compiles for these inputs, without running them, and saves.
  void compileAndExport(const std::filesystem::path& path,
                        std::span<const HostTensor> inputs,
                        const SaveOptions& options = {});
  void compileAndExport(const std::filesystem::path& path,
                        std::initializer_list<HostTensor> inputs,
                        const SaveOptions& options = {}) {
    compileAndExport(path, std::span(inputs.begin(), inputs.size()), options);
  }
  void compileAndExport(const std::filesystem::path& path,
                        const Inputs& inputs,
                        const SaveOptions& options = {});
  /// Takes the programs from a file that was saved by a model of the same module, with the same
  /// options, instead of compiling them. The values of this model stay. Throws InvalidArgument for
  /// a file of another model, FileError for a damaged one, and Unsupported as `otherTarget` says.
  void loadExecutable(const std::filesystem::path& path,
                      OtherTarget otherTarget = OtherTarget::Recompile);

  /// How long a micro-batch of the newest call took to reach the devices, to pass through them, to
  /// return, and in total (see profile/latency.h). Throws InvalidArgument unless the options enable
  /// profiling and the model was called.
  Latency getHostDeviceLatency() const;
  Latency getComputeLatency() const;
  Latency getDeviceHostLatency() const;
  Latency getLatency() const;

  /// Writes a page that shows the traced calls: what ran when, why devices were idle, and their
  /// memory. It needs nothing but a browser; names that end in .md, .json or .txt ask for text. If
  /// a target is named, such as "measured" after `sluice calibrate`, it has beside each time the
  /// one that the simulator predicts there, and what suggestChanges finds there. Throws
  /// InvalidArgument as above and for an unknown target, and FileError.
  void report(const std::filesystem::path& file, const std::string& predictedOn = {}) const;
  /// Writes what is known about a failure (error, options, program, versions, counts) to a folder
  /// below Options::logDir and returns it. If that fails it returns an empty path, and the log says
  /// why.
  std::filesystem::path writeDiagnostics(const Error& error) const;

  /// How long a call of the newest program takes on the devices' target, worked out without
  /// computing anything; also with ConnectionType::Never. With enableProfiling it is traced like a
  /// call. Throws InvalidArgument before the first compile and if the devices are not simulated.
  SimulatedStep simulateStep();
  /// What other schedules, and blocks or stages on other devices, would give: each change is
  /// planned with the model's memory and rules and simulated. The fastest come first, at most so
  /// many, and none that is not faster. Only for strategies with explicit stages. Devices that are
  /// not simulated need a target, such as "measured". Throws as above and for an unknown target.
  std::vector<Suggestion> suggestChanges(std::size_t most = 3, const std::string& target = {});
  /// Looks for the fastest way to run the model on so many devices, within their memory: strategy,
  /// cut, schedule, recomputation, and what is in remote memory. Each way is planned by the
  /// compiler and simulated; the options' own strategy, recomputation and locations do not count.
  /// `inputs` are the types of one micro-batch. Changes nothing, and the model need not be
  /// compiled. Throws InvalidArgument if the devices are not simulated, for fewer than 1 or more
  /// than 64 devices, and for inputs that do not fit.
  PlanReport findPlan(std::span<const TensorType> inputs, const PlanSettings& settings = {});

  /// Cycles that the newest call took on the devices, from the start of its first task to the end
  /// of its last; nanoseconds for a CPU. Throws InvalidArgument unless the options set
  /// logCycleCount and the model was called.
  std::int64_t cycleCount() const;

  /// Weight updates made so far.
  std::int64_t updates() const;
  void setLrSchedule(optim::LrSchedule schedule);
  /// Takes over the optimizer's attributes. New values of variable attributes take effect at the
  /// next call; later changes to the given object have no effect. Throws InvalidArgument for
  /// another rule and, once compiled, for another value of a constant attribute.
  void setOptimizer(const optim::Optimizer& optimizer);
  /// The current optimizer; null if the model is for inference.
  std::shared_ptr<const optim::Optimizer> optimizer() const;

  /// The weights, then the buffers, in the order of their declaration.
  std::vector<ir::Variable> variables() const;
  /// The value of a variable in one replica. Throws InvalidArgument for an unknown one,
  /// RecoverableError for one that a failed step has torn.
  HostTensor read(std::string_view variable, std::size_t replica = 0) const;
  /// Their values by PyTorch's names.
  NamedTensors stateDict() const;
  /// Throws InvalidArgument for a dictionary that does not fit, and then changes nothing. This
  /// function and the next two may be called before the first compile.
  nn::UnmatchedNames loadStateDict(const NamedTensors& state, nn::Strict strict = nn::Strict::Yes);
  /// The optimizer's state, attributes and number of updates; see OptimizerStateDict.
  OptimizerStateDict optimizerStateDict() const;
  /// Throws InvalidArgument for a dictionary that is empty, that comes from another library, or
  /// that has another rule, other weights or other types; and, once compiled, for another value of
  /// a constant attribute. It then changes nothing.
  void loadOptimizerStateDict(const OptimizerStateDict& state);
  /// The name of the training run that this model began, or that it continues after
  /// loadTrainingState. File names contain it.
  std::string runId() const;
  /// The state that the random ops of the next call use.
  RngState rngState() const;
  void setRngState(const RngState& state);
  /// All of the above at once. Loading takes over everything or, if it throws, nothing. Throws
  /// InvalidArgument for an inference model.
  TrainingState trainingState() const;
  void loadTrainingState(const TrainingState& state);

 protected:
  /// What a TypedModel knows of its module.
  struct ModuleParts {
    nn::Module& module;
    Forward forward;
    std::vector<Input> inputs;
    std::shared_ptr<nn::Module> owner;  ///< keeps the module alive; null: somebody else does
  };
  Model(ModuleParts parts, const Options& options, std::unique_ptr<optim::Optimizer> optimizer);

 private:
  friend class CompiledFunction;  // its call is one call of its model
  friend struct ModelLoader;      // executable.cpp

  /// Throws InvalidArgument if the model was moved from.
  ModelCore& core() const;
  template <class... Args>
  Pending startAsync(Args&&... args);

  std::unique_ptr<ModelCore> core_;  // null: moved from
};

/// A Model that takes what Net::forward takes and returns what it returns, with host tensors in
/// place of symbolic ones. Positional inputs come first, then inputs by name.
template <class Net>
class TypedModel : public Model {
  using Traits = detail::ForwardOf<Net>;

 public:
  /// An `owner` keeps the module alive.
  TypedModel(Net& net,
             const Options& options,
             std::unique_ptr<optim::Optimizer> optimizer,
             std::shared_ptr<Net> owner = nullptr)
      : Model({net, detail::bindForward(net), detail::inputsOf(net), std::move(owner)},
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

/// A model that owns its module. Throws InvalidArgument if the module is null.
template <class Net>
TypedModel<Net> owningModel(std::shared_ptr<Net> net,
                            const Options& options,
                            std::unique_ptr<optim::Optimizer> optimizer) {
  requireGivenModule(net.get());
  Net& module = *net;
  return TypedModel<Net>(module, options, std::move(optimizer), std::move(net));
}

}  // namespace detail

/// Makes a model for training. The last value that forward returns is the loss, a float scalar. A
/// call makes deviceIterations updates, each over gradientAccumulation micro-batches. The module
/// must live as long as something is still to be compiled. Pass a std::shared_ptr or
/// std::unique_ptr instead to make the model own its module, for instance in a function that makes
/// a module and returns its model.
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

/// Trains with plain SGD and a learning rate of 0.01.
template <class Net>
TypedModel<Net> trainingModel(Net& net, const Options& options) {
  return trainingModel(net, options, optim::SGD(0.01));
}

/// Makes a model for inference and validation. It shares the weights with a training model of the
/// same module.
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

}  // namespace sluice

#pragma GCC visibility pop
