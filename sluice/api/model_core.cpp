#include "sluice/api/model_core.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "sluice/api/chosen_devices.h"
#include "sluice/api/compile_plan.h"
#include "sluice/api/compile_progress.h"
#include "sluice/api/environment_profile.h"
#include "sluice/api/executable_cache.h"
#include "sluice/api/explain.h"
#include "sluice/api/option_support.h"
#include "sluice/api/step_recovery.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/data/queues.h"
#include "sluice/nn/block.h"

namespace sluice {
namespace {

/// With what follows from other settings: a Builder's pipeline without accumulation updates its
/// weights continuously under the IPU's rules, and the environment may ask for profiles.
Options completed(const Options& options, bool ofBuilder, bool training) {
  Options result = options;
  if (ofBuilder && training && keepsIpuRules(options) && options.compile().enablePipelining &&
      options.training.gradientAccumulation() == 1) {
    result.continuousWeightUpdates(true);
  }
  if (result.report().profileDir.empty()) {
    if (const std::optional<EnvironmentProfile> asked = profileOfEnvironment()) {
      result.enableProfiling(asked->directory).traceValues(asked->values);
      log::info("model", "the environment asks for profiles: they go to {}", asked->directory);
    }
  }
  return result;
}

std::vector<BatchLayout> layoutsOfAnchors(const BatchLayout& outputs, const Options& options) {
  std::vector<BatchLayout> layouts;
  for (const Anchor& anchor : options.batch().anchors) {
    try {
      layouts.push_back(anchor.mode == OutputMode::Default
                            ? outputs
                            : outputs.withOutput(anchor.mode, anchor.period));
    } catch (Error& error) {
      error.at(fmt::format("anchorTensor '{}'", anchor.shortName));
      throw;
    }
  }
  return layouts;
}

/// Sets the flag while it lives. Throws InvalidArgument if the flag is already set.
class CompilingScope {
 public:
  explicit CompilingScope(bool& flag) : flag_(flag) {
    if (flag_) {
      raise<InvalidArgument>("the model is called by its own module while that is traced");
    }
    flag_ = true;
  }
  ~CompilingScope() { flag_ = false; }
  CompilingScope(const CompilingScope&) = delete;
  CompilingScope& operator=(const CompilingScope&) = delete;

 private:
  bool& flag_;
};

/// Which group a weight belongs to is part of the compiled program.
void requireSameGroups(const program::StatePlan& plan,
                       const optim::Optimizer& before,
                       const optim::Optimizer& next) {
  for (const program::PlacedVariable& placed : plan.variables()) {
    const std::string& name = placed.variable.name;
    if (placed.variable.role == ir::VariableRole::Weight &&
        before.groupOf(name) != next.groupOf(name)) {
      raise<InvalidArgument>(
          "setOptimizer: '{}' is in group {} of the optimizer that the model was compiled with, "
          "and "
          "in group {} of the new one",
          name,
          before.groupOf(name),
          next.groupOf(name));
    }
  }
}

/// The mean over no samples is no loss, and an update from it would still change the weights.
void requireRowsOf(const Structure<TensorType>& signature, const std::vector<Input>& declared) {
  for (std::size_t i = 0; i < signature.size(); ++i) {
    signature[i].map(
        [](const TensorType& type, const std::string& path) {
          if (type.shape.rank() > 0 && type.shape[0] == 0) {
            raise<InvalidArgument>(
                "input '{}' has no rows, {} per micro-batch: a training step needs at least one",
                path,
                type.str());
          }
          return true;
        },
        declared[i].name);
  }
}

}  // namespace

ModelCore::ModelCore(std::unique_ptr<GraphSource> source,
                     const Options& options,
                     std::unique_ptr<optim::Optimizer> optimizer)
    : source_(std::move(source)),
      options_(completed(options, !source_->madeOfModule(), optimizer != nullptr)),
      layout_(BatchLayout::of(options, optimizer ? RunKind::Training : RunKind::Inference)),
      optimizer_(std::move(optimizer)) {
  detail::requireSupported(options_, source_->madeOfModule());
  layoutsOfAnchors(layout_, options_);
  if (continuous() && options_.training.gradientAccumulation() != 1) {
    raise<InvalidArgument>(
        "continuousWeightUpdates applies every gradient at once: gradientAccumulation must be 1, "
        "got {}",
        options_.training.gradientAccumulation());
  }
  if (training() && options_.training.automaticLossScaling()) {
    if (continuous()) {
      raise<InvalidArgument>(
          "automatic loss scaling changes the scaling between updates of the whole model: it does "
          "not go with continuousWeightUpdates");
    }
    optimizer_->markAsVariable("loss_scaling");
  }
  requireNamedBuffers();
  for (const std::string& line : options_.fromEnvironment()) {
    log::info("options", "from SLUICE_DEFAULT_OPTIONS: {}", line);
  }
  if (const std::string& folder = options_.report().profileDir; !folder.empty()) {
    std::filesystem::path place = std::filesystem::path(options_.report().logDir) / folder;
    if (const DistributedOptions& process = options_.distributed; process.numProcesses() > 1) {
      place /= fmt::format("rank{}", process.processId());  // each has a trace of its own lanes
    }
    recorder_ = std::make_shared<profile::StepRecorder>(place / programName());
    if (const TraceValues kept = options_.report().traceValues; kept != TraceValues::None) {
      recorder_->keepWrites(kept == TraceValues::All);
    }
  }
  cache_ = executableCache(options_);
  if (options_.recovery().retries > 0) {
    recovery_ = std::make_unique<StepRecovery>(options_.recovery());
  }
  joinSession();  // last: what throws from here on would have to leave
  rngSeed_ = session_->seed();
  options.freeze();
  options_.freeze();
}

void ModelCore::joinSession() {
  SessionTurn taken = takeSession(*source_, options_);
  taken.session->requireSameDevices(options_);
  taken.session->join(training());
  turn_ = taken.session->turn();
  session_ = std::move(taken.session);
}

ModelCore::~ModelCore() {
  if (turn_->isWaitingForThisThread()) {
    if (session_) {
      session_->leaveAfterStep(programs(), training());
    }
    return;
  }
  const runtime::Turn::Hold turn(turn_);
  if (!session_) {
    return;
  }
  try {
    session_->endSteps();
  } catch (const std::exception& error) {  // of files that hold the state: nobody is left to tell
    log::write("model", log::Level::Error, error.what());
  }
  programs_.clear();
  session_->leave(training());
}

std::vector<Session::ProgramPtr> ModelCore::programs() const {
  std::vector<Session::ProgramPtr> all;
  for (const auto& entry : programs_) {
    all.push_back(entry->compiled.program);
  }
  return all;
}

void ModelCore::destroy() {
  const runtime::Turn::Hold turn(turn_);
  if (!session_) {
    return;
  }
  session_->endSteps();
  programs_.clear();
  if (session_->leave(training())) {
    source_->release();
  }
  session_.reset();
  options_.endHold();
}

runtime::Turn::Hold ModelCore::enter() const {
  runtime::Turn::Hold turn(turn_, counts_.get());
  static_cast<void>(alive());
  return turn;
}

runtime::Turn::Hold ModelCore::exclusive() const {
  runtime::Turn::Hold turn = runtime::Turn::Hold::scope(turn_);
  static_cast<void>(alive());
  return turn;
}

const Options& ModelCore::options() const {
  return options_;
}

std::int64_t ModelCore::microBatchesPerStep() const {
  return layout_.microBatches();
}

bool ModelCore::cancel() {
  return turn_->cancel(counts_.get());
}

Session& ModelCore::alive() const {
  if (!session_) {
    raise<InvalidArgument>("the model was destroyed: make a new one of the same module");
  }
  return *session_;
}

void ModelCore::requireNamedBuffers() {
  for (const std::string& name : options_.state().updatableNamedBuffers) {
    std::vector<std::string> known;
    for (const ir::Variable& variable : source_->variables()) {
      if (source_->madeOfModule() && variable.role == ir::VariableRole::Buffer) {
        known.push_back(variable.name);
      }
    }
    if (std::ranges::find(known, name) == known.end()) {
      raise<InvalidArgument>("updatableNamedBuffers: the model has no buffer '{}'; it has [{}]",
                             name,
                             fmt::join(known, ", "));
    }
  }
}

bool ModelCore::continuous() const {
  return training() && options_.compile().continuousWeightUpdates;
}

std::int32_t ModelCore::microBatchesPerRound(const BatchLayout& layout) const {
  return static_cast<std::int32_t>(training() && !continuous() ? layout.gradientAccumulation
                                                               : layout.deviceIterations);
}

template <class L>
Structure<L> ModelCore::arrangedLeaves(std::span<const L> leaves) const {
  const std::vector<Input>& declared = source_->inputs();
  std::vector<L> all(leaves.begin(), leaves.end());
  if (!programs_.empty()) {
    const std::size_t taken = programs_.back()->signature.leaves().size();
    if (taken != all.size()) {
      raise<InvalidArgument>("the model takes {} inputs, got {}", taken, all.size());
    }
    return programs_.back()->signature.with(all);
  }
  const auto required = [](const Input& input) { return !input.byDefault; };
  if (all.size() > declared.size() ||
      std::ranges::any_of(std::span(declared).subspan(all.size()), required)) {
    raise<InvalidArgument>("the model takes {} inputs, got {}", declared.size(), all.size());
  }
  std::vector<Structure<L>> inputs(all.begin(), all.end());
  inputs.resize(declared.size());
  return Structure<L>::list(std::move(inputs));
}

HostStructure ModelCore::arranged(std::span<const HostTensor> inputs) const {
  const bool sameAgain = synthetic() && hasPrograms() && inputs.empty();
  return sameAgain ? HostStructure() : arrangedLeaves(inputs);
}

ModelCore::Signature ModelCore::arranged(std::span<const TensorType> inputs) const {
  return arrangedLeaves(inputs);
}

ModelCore::Signature ModelCore::signatureOf(const HostStructure& inputs,
                                            const BatchLayout& layout) const {
  std::vector<Signature> types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto typeOf = [&](const HostTensor& tensor, const std::string& path) {
      const std::int64_t rows =
          layout.microBatchOf(fmt::format("input '{}'", path), tensor.shape());
      std::vector<std::int64_t> dims = tensor.shape().dims();
      if (!dims.empty()) {
        dims[0] = rows;
      }
      return TensorType{tensor.dtype(), Shape(std::move(dims))};
    };
    types.push_back(inputs[i].map(typeOf, source_->inputs()[i].name));
  }
  Signature signature = Signature::list(std::move(types));
  requireSameKind(signature);
  return signature;
}

std::int64_t ModelCore::rowsOf(const Signature& signature) {
  const std::vector<TensorType> types = signature.leaves();
  const auto batch =
      std::ranges::find_if(types, [](const TensorType& t) { return t.shape.rank() > 0; });
  return batch == types.end() ? 1 : batch->shape[0];
}

std::string ModelCore::programName() const {
  const std::string& given = options_.report().modelName;
  return !given.empty() ? given : training() ? "training" : "inference";
}

profile::Latencies ModelCore::latencies() const {
  const runtime::Turn::Hold turn = enter();
  const std::optional<profile::Latencies> measured =
      recorder_ ? recorder_->latencies() : std::nullopt;
  if (!measured) {
    raise<InvalidArgument>(
        "latencies are measured by calls of a model whose options have enableProfiling(folder): {}",
        recorder_ ? "it was not called yet" : "its options do not");
  }
  return *measured;
}

void ModelCore::requireSimulated() const {
  if (alive().simulatedOn().empty()) {
    raise<InvalidArgument>(
        "the devices of the model are not simulated: use Options::device(\"sim@ipu2\"), "
        "useIpuModel(true) or useOfflineTarget()");
  }
  if (!hasPrograms()) {
    raise<InvalidArgument>("the model is not compiled yet: call compile(inputs) first");
  }
}

SimulatedStep ModelCore::simulateStep() {
  const runtime::Turn::Hold turn = enter();
  requireSimulated();
  Session& session = alive();
  const Entry& entry = *programs_.back();
  const Session::ProgramPtr& program = entry.compiled.program;
  const std::int64_t cycles =
      session.simulate(program,
                       rounds(entry.layout),
                       static_cast<std::size_t>(entry.layout.replicationFactor),
                       recorder_ ? recorder_->begin() : nullptr);
  if (recorder_) {
    recorder_->end(program->program(), session.simulatedOn());
  }
  return {.target = session.simulatedOn(),
          .cycles = cycles,
          .seconds = static_cast<double>(cycles) / static_cast<double>(session.virtualHertz())};
}

void ModelCore::report(const std::filesystem::path& file) const {
  const runtime::Turn::Hold turn = enter();
  if (!recorder_ || recorder_->traces().empty()) {
    raise<InvalidArgument>(
        "a report shows the first calls of a model whose options have enableProfiling(folder): {}",
        recorder_ ? "it was not called yet" : "its options do not");
  }
  profile::writeReport(file, recorder_->traces());
}

void ModelCore::requireSameKind(const Signature& signature) const {
  if (programs_.empty()) {
    return;
  }
  const Signature& first = programs_.front()->signature;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::string& input = source_->inputs()[i].name;
    if (const std::string other = difference(first[i], signature[i], input); !other.empty()) {
      raise<InvalidArgument>("the model was compiled for inputs of another structure: {}", other);
    }
    const std::vector<TensorType> now = signature[i].leaves();
    std::size_t leaf = 0;
    first[i].map(
        [&](const TensorType& was, const std::string& path) {
          const TensorType& is = now[leaf++];
          if (was.dtype != is.dtype || was.shape.rank() != is.shape.rank()) {
            raise<InvalidArgument>(
                "input '{}' was {} per micro-batch when the model was compiled and is {} now: "
                "another extent compiles a second program, another type or rank does not fit",
                path,
                was.str(),
                is.str());
          }
          return true;
        },
        input);
  }
}

std::vector<BatchLayout> ModelCore::outputLayouts(std::size_t outputs,
                                                  const BatchLayout& layout) const {
  std::vector<BatchLayout> layouts(outputs, layout);
  const std::vector<BatchLayout> anchors = layoutsOfAnchors(layout, options_);
  layouts.insert(layouts.end(), anchors.begin(), anchors.end());
  return layouts;
}

ModelCore::Entry ModelCore::makeEntry(const Signature& signature,
                                      const BatchLayout& layout,
                                      const Options& options,
                                      CompileProgress& progress) {
  progress.begin(CompilePhase::Trace);
  TracedGraph traced = source_->trace({signature, training(), options_});
  nn::requireLiveBlocks(traced.graph);
  const std::optional<std::string> key = cacheKeyOf(traced, layout, options);
  compiler::CompileRequest request = requestOf(traced, layout, options);
  const auto onStep = [&](const std::function<bool(const std::string&)>& has) {
    requireLoadedState(has);
    alive().warn(traced.warnings, options);
  };
  request.hooks.onStep = [&](const ir::Graph& step) {
    onStep([&](const std::string& name) { return step.findVariable(name) != nullptr; });
  };
  std::optional<CacheUse> cache;
  if (key) {
    cache.emplace(CacheUse{*cache_, *key, [&](const program::StatePlan& plan) {
                             onStep([&](const std::string& n) { return plan.find(n) != nullptr; });
                           }});
  }
  CompiledProgram compiled =
      alive().compile(std::move(request), options, &progress, cache ? &*cache : nullptr);
  const std::optional<std::size_t> fetchedLoss = compiled.fetchedLoss;
  return {signature,
          layout,
          traced.outputs,
          std::move(traced.result),
          std::move(compiled),
          fetchedLoss};
}

void ModelCore::requireRows(const Signature& signature) const {
  if (training()) {
    requireRowsOf(signature, source_->inputs());
  }
}

ModelCore::Entry& ModelCore::entryFor(const Signature& signature, BatchLayout layout) {
  requireRows(signature);
  layout.microBatch = rowsOf(signature);
  for (const auto& entry : programs_) {
    if (entry->signature == signature && entry->layout == layout) {
      return *entry;
    }
  }
  const CompilingScope scope(compiling_);
  CompileProgress progress(options_.compile().showProgressBar);
  programs_.push_back(std::make_unique<Entry>(makeEntry(signature, layout, options_, progress)));
  progress.finish();
  compilationSeconds_ += progress.seconds();
  return *programs_.back();
}

ModelCore::Entry& ModelCore::entryOf(const HostStructure& inputs, const BatchLayout& layout) {
  source_->requireBuffers();
  if (synthetic() && inputs.isAbsent() && !programs_.empty()) {
    return *programs_.back();
  }
  return entryFor(signatureOf(inputs, layout), layout);
}

ModelCore::Entry& ModelCore::entryOf(data::InfeedQueue& infeed, const data::OutfeedQueue& outfeed) {
  if (synthetic() || !options_.batch().anchors.empty()) {
    raise<InvalidArgument>(
        "a model that runs on queues has neither synthetic data nor anchored tensors");
  }
  const bool last = outfeed.mode() == data::OutfeedMode::Last;
  const Signature signature = arranged(alive().typesOf(infeed));
  requireSameKind(signature);
  return entryFor(signature, layout_.withOutput(last ? OutputMode::Final : OutputMode::All, 1));
}

ModelCore::Entry& ModelCore::entryOf(const Signature& signature) {
  source_->requireBuffers();
  requireSameKind(signature);
  return entryFor(signature, layout_);
}

void ModelCore::compile(std::span<const HostTensor> inputs) {
  const runtime::Turn::Hold turn = enter();
  entryOf(arranged(inputs), layout_);
}

void ModelCore::compile(const Inputs& inputs) {
  const runtime::Turn::Hold turn = enter();
  entryOf(bound(inputs), layout_);
}

void ModelCore::compile(std::span<const TensorType> inputs) {
  const runtime::Turn::Hold turn = enter();
  entryOf(arranged(inputs));
}

void ModelCore::check(std::span<const TensorType> inputs) {
  const runtime::Turn::Hold turn = enter();
  const Signature signature = arranged(inputs);
  requireRows(signature);
  const CompilingScope scope(compiling_);
  BatchLayout layout = layout_;
  layout.microBatch = rowsOf(signature);
  TracedGraph traced = source_->trace({signature, training(), options_});
  nn::requireLiveBlocks(traced.graph);
  alive().check(requestOf(traced, layout, options_));
}

BatchLayout ModelCore::batchLayout() const {
  const runtime::Turn::Hold turn = enter();
  return programs_.empty() ? layout_ : programs_.back()->layout;
}

void ModelCore::writeStepScalars() {
  for (const auto& [name, value] : optimizer_->scalars(schedule_.at(counts_->updates))) {
    if (alive().contains(name)) {
      alive().fill(name, value);
    }
  }
}

std::vector<std::string> ModelCore::getTensorNames() const {
  const runtime::Turn::Hold turn = enter();
  return compiled().tensorNames;
}

HostTensor ModelCore::getAnchoredTensor(std::string_view shortName) const {
  const runtime::Turn::Hold turn = enter();
  const std::vector<Anchor>& anchors = options_.batch().anchors;
  const auto found = std::ranges::find(anchors, shortName, &Anchor::shortName);
  if (found == anchors.end()) {
    raise<InvalidArgument>("no tensor is anchored as '{}'; use Options::anchorTensor", shortName);
  }
  if (counts_->anchors.empty()) {
    raise<InvalidArgument>("anchor '{}' has no value yet: call the model first", shortName);
  }
  return counts_->anchors[static_cast<std::size_t>(found - anchors.begin())];
}

void ModelCore::detachFromDevice() {
  const runtime::Turn::Hold turn = enter();
  alive().detach();
}

void ModelCore::attachToDevice() {
  const runtime::Turn::Hold turn = enter();
  if (options_.device().connection == ConnectionType::Never) {
    raise<InvalidArgument>("connectionType is Never: the model cannot be attached to a device");
  }
  if (!hasPrograms()) {
    raise<InvalidArgument>("the model is not compiled yet: call it or compile() before attaching");
  }
  alive().attach();
}

bool ModelCore::isCompiled() const {
  const runtime::Turn::Hold turn(turn_);
  return hasPrograms();
}

double ModelCore::compilationTime() const {
  const runtime::Turn::Hold turn = enter();
  return compilationSeconds_;
}

bool ModelCore::isAttachedToDevice() const {
  const runtime::Turn::Hold turn(turn_);
  const ConnectionType connection = options_.device().connection;
  return session_ && connection != ConnectionType::Never && session_->isAttached() &&
         (connection == ConnectionType::Always || hasPrograms());
}

void ModelCore::copyNamedBuffersToDevice() {
  const runtime::Turn::Hold turn = enter();
  if (options_.state().updatableNamedBuffers.empty()) {
    raise<InvalidArgument>(
        "copyNamedBuffersToDevice: name the buffers with Options::updatableNamedBuffers");
  }
}

std::int64_t ModelCore::cycleCount() const {
  const runtime::Turn::Hold turn = enter();
  if (counts_->cycles == 0) {
    raise<InvalidArgument>(
        "cycles are counted by calls of a model whose options have logCycleCount(true): {}",
        options_.report().logCycleCount ? "it was not called yet" : "its options do not");
  }
  return counts_->cycles;
}

std::int64_t ModelCore::updates() const {
  const runtime::Turn::Hold turn = enter();
  return counts_->updates;
}

nn::Module& ModelCore::module() {
  const runtime::Turn::Hold turn = enter();
  if (source_->module() == nullptr) {
    raise<InvalidArgument>("the model was made of a Builder or an executable and has no module");
  }
  return *source_->module();
}

Session& ModelCore::session() {
  const runtime::Turn::Hold turn = enter();
  return alive();
}

void ModelCore::setLrSchedule(optim::LrSchedule schedule) {
  const runtime::Turn::Hold turn = enter();
  forgetCalls();
  schedule_ = std::move(schedule);
}

std::shared_ptr<const optim::Optimizer> ModelCore::optimizer() const {
  const runtime::Turn::Hold turn = enter();
  return optimizer_;
}

void ModelCore::setOptimizer(const optim::Optimizer& optimizer) {
  const runtime::Turn::Hold turn = enter();
  forgetCalls();
  if (!training() || optimizer.name() != optimizer_->name()) {
    raise<InvalidArgument>("the model was made with {}; setOptimizer got {}",
                           training() ? optimizer_->name() : "no optimizer",
                           optimizer.name());
  }
  std::unique_ptr<optim::Optimizer> next =
      hasPrograms() ? optimizer_->succeededBy(optimizer) : optimizer.clone();
  if (hasPrograms()) {
    requireSameGroups(alive().state().plan(), *optimizer_, *next);
  }
  if (options_.training.automaticLossScaling()) {
    next->markAsVariable("loss_scaling");
  }
  optimizer_ = std::move(next);  // somebody may still look at the one before
}

const CompiledProgram& ModelCore::compiled() const {
  const runtime::Turn::Hold turn = enter();
  if (programs_.empty()) {
    raise<InvalidArgument>("the model is not compiled yet: call it or compile() first");
  }
  return programs_.back()->compiled;
}

std::string ModelCore::explain() const {
  const runtime::Turn::Hold turn = enter();
  return sluice::explain(compiled(), batchLayout(), options_);
}

std::string ModelCore::summary() const {
  const runtime::Turn::Hold turn = enter();
  std::string text = source_->summary();
  for (const auto& entry : programs_) {
    std::vector<std::string> types;
    for (const TensorType& type : entry->signature.leaves()) {
      types.push_back(type.str());
    }
    const program::Program& p = entry->compiled.program->program();
    std::size_t kernels = 0;
    for (const program::Segment& segment : p.segments) {
      kernels += segment.calls.size();
    }
    text += fmt::format("{} program for ({}): {} kernels", p.name, fmt::join(types, ", "), kernels);
    for (std::size_t d = 0; d < p.devices.size(); ++d) {
      text += p.devices.size() == 1 ? std::string(", ") : fmt::format("\n  device {}: ", d);
      text += fmt::format("{} bytes of state, {} bytes of activations and scratch",
                          p.devices[d].stateBytes,
                          p.devices[d].transientBytes);
    }
    text += "\n";
  }
  return text;
}

}  // namespace sluice
