// ModelCore: what is inside of a Model, whose functions it has under the same names; model.h says
// what they do. A Model that was moved from has none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/batch.h"
#include "sluice/api/compiled_program.h"
#include "sluice/api/constant_weights.h"
#include "sluice/api/graph_source.h"
#include "sluice/api/model.h"
#include "sluice/api/session.h"
#include "sluice/api/step.h"
#include "sluice/base/recoverable_error.h"
#include "sluice/profile/step_recorder.h"
#include "sluice/runtime/turn.h"

namespace sluice {

class ExecutableCache;
class ExecutableFile;
class StepRecovery;
struct StoredProgram;
struct StoredState;

class ModelCore {
 public:
  ModelCore(std::unique_ptr<GraphSource> source,
            const Options& options,
            std::unique_ptr<optim::Optimizer> optimizer);
  ModelCore(const ModelCore&) = delete;
  ModelCore& operator=(const ModelCore&) = delete;
  ~ModelCore();

  /// Every function begins with it: waits for the turn of the calling thread. Throws
  /// InvalidArgument once the model is destroyed.
  runtime::Turn::Hold enter() const;

  bool cancel();

  runtime::Turn::Hold exclusive() const;
  std::string inFirstProcess(std::string_view what, const std::function<std::string()>& f) const;
  std::int64_t largestInAllProcesses(std::string_view what, std::int64_t number) const;

  void destroy();

  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  HostStructure run(const Inputs& inputs);
  std::vector<HostTensor> run(const Batch& batch);
  void run(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed);
  void run(std::span<const TensorType> inputs,
           std::unique_ptr<runtime::HostFeed> feed,
           std::unique_ptr<ResultSink> sink);
  void run(std::span<const TensorType> inputs,
           std::unique_ptr<runtime::HostFeed> feed,
           const Model::MakeSink& makeSink);
  NamedTensors run(const NamedTensors& inputs);
  Pending runAsync(std::vector<HostTensor> inputs);
  Pending runAsync(const Inputs& inputs);
  Pending runAsync(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed);
  void compile(std::span<const HostTensor> inputs);
  void compile(const Inputs& inputs);
  void compile(std::span<const TensorType> inputs);
  void compileAgain(std::span<const HostTensor> inputs);
  void check(std::span<const TensorType> inputs);
  bool isCompiled() const;
  double compilationTime() const;

  std::vector<std::string> getTensorNames() const;
  HostTensor getAnchoredTensor(std::string_view shortName) const;

  void detachFromDevice();
  void attachToDevice();
  bool isAttachedToDevice() const;

  void copyNamedBuffersToDevice();

  std::optional<NonFinite> findFirstNonFinite(std::span<const HostTensor> inputs);

  const Options& options() const;
  BatchLayout batchLayout() const;
  Session& session();
  nn::Module& module();
  std::int64_t microBatchesPerStep() const;
  std::string summary() const;
  std::string explain() const;
  std::string getModelProto(onnx::Exact exact) const;
  const CompiledProgram& compiled() const;

  SimulatedStep simulateStep();
  std::vector<Suggestion> suggestChanges(std::size_t most, const std::string& target);
  PlanReport findPlan(std::span<const TensorType> inputs, const PlanSettings& settings);
  std::int64_t cycleCount() const;

  std::int64_t updates() const;
  void setLrSchedule(optim::LrSchedule schedule);
  void setOptimizer(const optim::Optimizer& optimizer);
  std::shared_ptr<const optim::Optimizer> optimizer() const;

  std::vector<ir::Variable> variables() const;
  HostTensor read(std::string_view variable, std::size_t replica) const;
  NamedTensors stateDict() const;
  nn::UnmatchedNames loadStateDict(const NamedTensors& state, nn::Strict strict = nn::Strict::Yes);
  OptimizerStateDict optimizerStateDict() const;
  void loadOptimizerStateDict(const OptimizerStateDict& state);
  std::string runId() const;
  RngState rngState() const;
  void setRngState(const RngState& state);
  TrainingState trainingState() const;
  void loadTrainingState(const TrainingState& state);
  profile::Latencies latencies() const;
  void report(const std::filesystem::path& file, const std::string& predictedOn) const;
  std::filesystem::path writeDiagnostics(const Error& error) const;

  void save(const std::filesystem::path& path, const SaveOptions& options) const;
  void loadExecutable(const std::filesystem::path& path, OtherTarget otherTarget);
  /// Whether a model was made of the file whose programs it takes, or the file of one like it.
  enum class MadeOf { File, SameModel };
  /// Loads the programs of a file; compiles again what is for another target, or throws
  /// Unsupported, as asked.
  void install(ExecutableFile& file, OtherTarget otherTarget, MadeOf madeOf);
  /// Takes over values, counts and random numbers of a file.
  void loadStored(const StoredState& stored);

 private:
  /// The contents of a checked optimizer dictionary.
  struct OptimizerLoad {
    std::unique_ptr<optim::Optimizer> optimizer;
    std::int64_t updates = 0;
  };

  using Signature = Structure<TensorType>;  // per micro-batch; a list of all inputs
  struct Entry {
    Signature signature;
    BatchLayout layout;
    std::size_t outputs = 0;        // of the program, without the anchors after them
    Structure<std::size_t> result;  // the outputs as the model's function returned them
    CompiledProgram compiled;
    std::optional<std::size_t> loss = {};  // the drain of the minimised value, if it has one
    FixedValues fixed = {};                // what its program has as constants (constantWeights)
    bool compilesAgain = false;            // before the next call
  };

  bool training() const { return optimizer_ != nullptr; }
  bool hasPrograms() const { return !programs_.empty(); }
  /// The same for a step that continues in another thread. Throws InvalidArgument inside
  /// exclusive().
  runtime::Turn::Hold enterAlone() const;
  void joinSession();
  std::vector<Session::ProgramPtr> programs() const;
  /// Throws InvalidArgument once the model is destroyed.
  Session& alive() const;
  bool synthetic() const { return options_.batch().syntheticData != SyntheticDataMode::Off; }
  /// Whether weights are updated at every micro-batch; a call is then one round.
  bool continuous() const;
  std::int32_t microBatchesPerRound(const BatchLayout& layout) const;
  /// Arranges tensors, or types, in the structure of the newest program; before there is one, one
  /// per input.
  HostStructure arranged(std::span<const HostTensor> inputs) const;
  Signature arranged(std::span<const TensorType> inputs) const;
  template <class L>
  Structure<L> arrangedLeaves(std::span<const L> leaves) const;
  HostStructure bound(const Inputs& inputs) const;
  Signature signatureOf(const HostStructure& inputs, const BatchLayout& layout) const;
  /// Rows of a micro-batch.
  static std::int64_t rowsOf(const Signature& signature);
  void requireSameKind(const Signature& signature) const;
  /// Throws InvalidArgument for a training step without any.
  void requireRows(const Signature& signature) const;
  Entry& entryFor(const Signature& signature, BatchLayout layout);
  /// Whether the graphs of the source get the values of its variables as constants.
  bool fixesWeights() const;
  /// Whether programs have the values of weights as constants: by the option or by the source.
  bool hasConstantWeights() const { return fixesWeights() || source_->hasConstantWeights(); }
  /// Threads that the traced function waits for must not use the model.
  TracedGraph trace(const Signature& signature, bool training) const;
  /// The graph of the source; with constantWeights it has constants, which `fixed` then lists.
  TracedGraph graphFor(const Signature& signature, FixedValues* fixed = nullptr) const;
  /// Whether the program has other values as constants than the variables have now.
  bool isOutdated(Entry& entry) const;
  std::uint64_t writesOfOthers(const Entry& entry) const;
  /// Throws InvalidArgument if a program of the file has other constants than this model would.
  FixedValues requireSameWeights(const ExecutableFile& file, std::size_t program) const;
  /// `before` is the program with other weights as constants that the entry replaces.
  Entry makeEntry(const Signature& signature,
                  const BatchLayout& layout,
                  const Options& options,
                  CompileProgress& progress,
                  const Entry* before = nullptr);
  /// What the compiler is asked for; takes the graph and the names of its tensors.
  compiler::CompileRequest requestOf(TracedGraph& traced,
                                     const BatchLayout& layout,
                                     const Options& options) const;
  void requireNamedBuffers();
  static program::DrainRule drainRule(const BatchLayout& layout);
  std::vector<BatchLayout> outputLayouts(std::size_t outputs, const BatchLayout& layout) const;
  void writeStepScalars();
  void requireTraining(std::string_view what) const;
  /// Null: the model has the program no more.
  const Entry* entryOf(const profile::StepRecorder::ProgramPtr& program) const;
  /// The steps of a trace in the virtual time of a target.
  profile::Trace predicted(const profile::Trace& measured,
                           const Entry& entry,
                           VirtualTime& time) const;
  /// In this virtual time; null: in that of the devices.
  std::vector<Suggestion> suggestions(const Entry& entry,
                                      std::size_t most,
                                      const VirtualTime* time) const;
  /// Throws InvalidArgument unless devices are simulated.
  void requireSimulatedDevices() const;
  /// The same, and unless there is a program.
  void requireSimulated() const;
  class PlanTrials;  // of findPlan
  HostTensor valueOf(const ir::Variable& variable) const;
  /// The state that the optimizer keeps, also for weights that no program uses.
  std::vector<ir::Variable> optimizerState(const optim::Optimizer& optimizer) const;
  OptimizerLoad checked(const OptimizerStateDict& state) const;
  void commit(OptimizerLoad load, const NamedTensors& state);
  /// `has` says whether a program has a variable.
  void requireLoadedState(const std::function<bool(const std::string&)>& has) const;
  /// What the cache knows a program by, besides what the session adds; not set: it is not cached.
  std::optional<std::string> cacheKeyOf(const TracedGraph& traced,
                                        const BatchLayout& layout,
                                        const Options& options) const;
  std::string programName() const;
  /// Throws InvalidArgument unless the executable was made of a model like this one.
  void requireSameModel(const ExecutableFile& file) const;
  /// Throws FileError unless the program does what an entry of this model has to do.
  void requireFits(const StoredProgram& stored) const;
  Entry loaded(StoredProgram stored);
  /// Throws Unsupported if the results of a step are spread over several processes.
  void requireOwnResults() const;
  /// Is called before every step.
  void beginStep();
  std::shared_ptr<Step> prepare(std::vector<HostTensor> inputs, const Entry& entry);
  std::shared_ptr<Step> prepare(data::InfeedQueue& infeed,
                                data::OutfeedQueue& outfeed,
                                const Entry& entry);
  Entry& entryOf(const HostStructure& inputs, const BatchLayout& layout);
  Entry& entryOf(data::InfeedQueue& infeed, const data::OutfeedQueue& outfeed);
  Entry& entryOf(const Signature& signature);
  std::vector<HostTensor> runStep(const std::shared_ptr<Step>& step, Entry& entry);
  /// A call on tensors, which is made again after a recoverable error if the options say so.
  std::vector<HostTensor> runTensors(std::vector<HostTensor> inputs, Entry& entry);
  /// Calls before this one are not repeated any more: they depend on what is changed now.
  void forgetCalls();
  /// A call that can be made again; keeps copies of the inputs.
  std::function<void()> repeated(const std::vector<HostTensor>& inputs, Entry& entry);
  /// Resets the devices, restores the state, and repeats the calls since it was copied.
  void recover();
  /// The error that a call ends with which is not made again; leaves diagnostics.
  UnrecoverableError unrecoverable(const Error& error, std::string_view why) const;
  /// The step as a function that does not need the model any more, which may end in a function that
  /// its own step calls.
  std::function<std::vector<HostTensor>()> callOf(const std::shared_ptr<Step>& step,
                                                  Entry& entry) const;
  /// Makes a call in another thread, which takes over the turn.
  static Pending start(std::function<std::vector<HostTensor>()> call, runtime::Turn::Hold turn);
  Pending startTensors(std::vector<HostTensor> inputs, Entry& entry, runtime::Turn::Hold turn);
  runtime::StepArgs argsOf(Step& step, const Entry& entry) const;
  std::function<void()> finisher(std::shared_ptr<Step> step, const Entry& entry) const;
  std::int32_t rounds(const BatchLayout& layout) const;

  std::unique_ptr<GraphSource> source_;
  Options options_;
  BatchLayout layout_;                           // of the options
  std::shared_ptr<optim::Optimizer> optimizer_;  // null: inference
  optim::LrSchedule schedule_;
  std::shared_ptr<runtime::Turn> turn_;  // the session's; guards all below
  std::shared_ptr<Session> session_;     // of all models of one module; null: destroyed
  bool compiling_ = false;
  std::vector<std::unique_ptr<Entry>> programs_;
  std::shared_ptr<StepCounts> counts_ = std::make_shared<StepCounts>();  // shared with steps
  std::uint64_t rngSeed_ = 0;
  std::string runId_ = makeRunId();
  bool stateLoaded_ = false;  // of the optimizer, before the first compile
  double compilationSeconds_ = 0;
  std::shared_ptr<profile::StepRecorder> recorder_;  // shared with steps; null: no profile
  std::shared_ptr<ExecutableCache> cache_;           // null: none
  std::shared_ptr<StepRecovery> recovery_;           // null: failed calls are not repeated
  std::shared_ptr<const int> life_ = std::make_shared<int>();  // ends with the model
};

}  // namespace sluice
