#include "sluice/api/model_core.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "sluice/api/chosen_devices.h"
#include "sluice/api/compile_plan.h"
#include "sluice/api/environment_profile.h"
#include "sluice/api/executable_cache.h"
#include "sluice/api/kernel_limits.h"
#include "sluice/api/option_support.h"
#include "sluice/api/step_recovery.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

/// Whose devices run no kernels in the time that is traced.
bool isSimulated(const devices::DeviceList& list) {
  return std::ranges::any_of(list.names, [](const auto& name) { return name.kind == "sim"; });
}

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
      result.enableProfiling(asked->directory)
          .traceValues(asked->values)
          .traceKernels(asked->kernels && !isSimulated(chosenDevices(result)));
      log::info("model", "the environment asks for profiles: they go to {}", asked->directory);
    }
  }
  return result;
}

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

}  // namespace

ModelCore::ModelCore(std::unique_ptr<GraphSource> source,
                     const Options& options,
                     std::unique_ptr<optim::Optimizer> optimizer)
    : source_(std::move(source)),
      options_(completed(options, !source_->madeOfModule(), optimizer != nullptr)),
      layout_(BatchLayout::of(options, optimizer ? RunKind::Training : RunKind::Inference)),
      optimizer_(std::move(optimizer)) {
  detail::requireSupported(options_, source_->madeOfModule());
  requireConstantWeights(options_, training(), source_->hasConstantWeights());
  outputLayouts(0, layout_);  // throws for anchors that do not fit
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
    if (options_.report().traceKernels) {
      recorder_->keepKernels(measuredLimits(chosenDevices(options_), options_.threads()));
    }
  }
  cache_ = executableCache(options_);
  if (options_.recovery().retries > 0) {
    recovery_ = std::make_shared<StepRecovery>(options_.recovery());
  }
  joinSession();  // last: what throws from here on would have to leave
  if (options_.report().traceKernels && !session_->simulatedOn().empty()) {
    session_->leave(training());
    raise<InvalidArgument>("traceKernels: simulated devices run no kernels in their virtual time");
  }
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

std::string ModelCore::programName() const {
  const std::string& given = options_.report().modelName;
  return !given.empty() ? given : training() ? "training" : "inference";
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
  requireTraining("setLrSchedule");
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

}  // namespace sluice
