// The state of a model as dictionaries: weights and buffers, optimizer, random numbers.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include <fmt/format.h>

#include "sluice/api/model_core.h"
#include "sluice/base/error.h"
#include "sluice/optim/state.h"

namespace sluice {
namespace {

constexpr std::string_view kUpdates = "updates";

/// "lr", or "group1.lr".
std::string attributeName(std::string_view attribute, std::size_t group) {
  return group == 0 ? std::string(attribute) : fmt::format("group{}.{}", group, attribute);
}

const HostTensor& scalarOf(const NamedTensors& section, std::string_view name, DType dtype) {
  const auto found = section.find(name);
  if (found == section.end()) {
    raise<InvalidArgument>("loadOptimizerStateDict: '{}' has no '{}'", kIpuParam, name);
  }
  if (found->second.type() != TensorType{dtype, Shape{}}) {
    raise<InvalidArgument>("loadOptimizerStateDict: '{}' of '{}' is {}, expected {}[]",
                           name,
                           kIpuParam,
                           found->second.type().str(),
                           sluice::name(dtype));
  }
  return found->second;
}

/// The optimizer with the attributes of a dictionary, of which there may be no others.
std::unique_ptr<optim::Optimizer> withAttributes(const optim::Optimizer& optimizer,
                                                 const NamedTensors& params) {
  std::unique_ptr<optim::Optimizer> result = optimizer.clone();
  std::size_t known = 1;  // the number of updates
  for (std::size_t group = 0; group < optimizer.numGroups(); ++group) {
    for (const auto& [attribute, value] : optimizer.attributes(group)) {
      result->set(
          attribute, scalarOf(params, attributeName(attribute, group), DType::F64).at(0), group);
      ++known;
    }
  }
  if (known != params.size()) {
    raise<InvalidArgument>(
        "loadOptimizerStateDict: the dictionary has {} numbers and {} with {} groups has {}",
        params.size(),
        optimizer.name(),
        optimizer.numGroups(),
        known);
  }
  return result;
}

void requireSections(const OptimizerStateDict& state) {
  if (state.empty()) {
    raise<InvalidArgument>("loadOptimizerStateDict: the dictionary is empty");
  }
  if (!state.contains(kIpuState) || !state.contains(kIpuParam)) {
    raise<InvalidArgument>(
        "loadOptimizerStateDict: only IPU optimizer states can be loaded, with '{}' and '{}'; "
        "importTorch converts one of PyTorch's",
        kIpuState,
        kIpuParam);
  }
}

}  // namespace

NamedTensors flattened(const OptimizerStateDict& state) {
  NamedTensors flat;
  for (const auto& [section, tensors] : state) {
    for (const auto& [name, tensor] : tensors) {
      flat.emplace(fmt::format("{}/{}", section, name), tensor);
    }
  }
  return flat;
}

OptimizerStateDict sectioned(const NamedTensors& flat) {
  OptimizerStateDict state;
  for (const auto& [name, tensor] : flat) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) {
      raise<InvalidArgument>(
          "'{}' is in no section: a name such as ipu_state/{} is expected", name, name);
    }
    state[name.substr(0, slash)].emplace(name.substr(slash + 1), tensor);
  }
  return state;
}

std::string makeRunId() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}-{:08x}",
                     utc.tm_year + 1900,
                     utc.tm_mon + 1,
                     utc.tm_mday,
                     utc.tm_hour,
                     utc.tm_min,
                     utc.tm_sec,
                     std::random_device()());
}

bool isRunId(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  });
}

std::string ModelCore::runId() const {
  const runtime::Turn::Hold turn = enter();
  return runId_;
}

std::vector<ir::Variable> ModelCore::variables() const {
  const runtime::Turn::Hold turn = enter();
  return source_->variables();
}

HostTensor ModelCore::valueOf(const ir::Variable& variable) const {
  return session_->contains(variable.name) ? session_->read(variable.name)
                                           : ir::initialValue(variable, session_->seed());
}

HostTensor ModelCore::read(std::string_view variable, std::size_t replica) const {
  const runtime::Turn::Hold turn = enter();
  if (!session_->contains(variable)) {
    raise<InvalidArgument>("read: the model has no variable '{}', or is not compiled yet",
                           variable);
  }
  if (replica >= session_->numReplicas()) {
    raise<InvalidArgument>(
        "read: there is no replica {}; the model has {}", replica, session_->numReplicas());
  }
  return session_->read(variable, replica);
}

NamedTensors ModelCore::stateDict() const {
  const runtime::Turn::Hold turn = enter();
  NamedTensors state;
  for (const ir::Variable& variable : variables()) {
    state.emplace(variable.name, valueOf(variable));
  }
  return state;
}

nn::UnmatchedNames ModelCore::loadStateDict(const NamedTensors& state, nn::Strict strict) {
  const runtime::Turn::Hold turn = enter();
  forgetCalls();
  const std::vector<ir::Variable> all = variables();
  const auto constant = std::ranges::find_if(all, [&](const ir::Variable& variable) {
    return state.contains(variable.name) && (variable.role == ir::VariableRole::Weight ||
                                             !session_->state().contains(variable.name));
  });
  if (source_->hasConstantWeights() && hasPrograms() && constant != all.end()) {
    raise<InvalidArgument>(
        "loadStateDict: values such as that of '{}' are constants of the compiled program; load "
        "them before prepareDevice, or make the session with constantWeights = false, or the "
        "executable without the option constantWeights",
        constant->name);
  }
  nn::UnmatchedNames unmatched = nn::requireStateDict(all, state, strict);
  for (const ir::Variable& variable : all) {
    if (const auto given = state.find(variable.name); given != state.end()) {
      session_->set(variable.name, given->second);
    }
  }
  return unmatched;
}

void ModelCore::requireTraining(std::string_view what) const {
  if (!training()) {
    raise<InvalidArgument>("{}: the model is for inference and has no optimizer", what);
  }
}

std::vector<ir::Variable> ModelCore::optimizerState(const optim::Optimizer& optimizer) const {
  return optim::stateVariables(
      optimizer, source_->variables(), options_.training.automaticLossScaling());
}

OptimizerStateDict ModelCore::optimizerStateDict() const {
  const runtime::Turn::Hold turn = enter();
  requireTraining("optimizerStateDict");
  OptimizerStateDict state;
  NamedTensors& tensors = state[std::string(kIpuState)];
  for (const ir::Variable& variable : optimizerState(*optimizer_)) {
    // A model without devices (ConnectionType::Never) has programs, but nothing holds their state.
    const bool planned = std::ranges::any_of(programs_, [&](const auto& entry) {
      const std::optional<program::StatePlan>& plan = entry->compiled.state;
      return plan && plan->find(variable.name) != nullptr;
    });
    const bool anew = !stateLoaded_ && (!hasPrograms() || planned);
    if (anew || session_->contains(variable.name)) {
      tensors.emplace(variable.name, valueOf(variable));
    }
  }
  NamedTensors& params = state[std::string(kIpuParam)];
  for (std::size_t group = 0; group < optimizer_->numGroups(); ++group) {
    for (const auto& [attribute, value] : optimizer_->attributes(group)) {
      params.emplace(attributeName(attribute, group), HostTensor::scalar(value));
    }
  }
  params.emplace(kUpdates, HostTensor::scalar(counts_->updates));
  return state;
}

ModelCore::OptimizerLoad ModelCore::checked(const OptimizerStateDict& state) const {
  requireTraining("loadOptimizerStateDict");
  requireSections(state);
  const NamedTensors& tensors = state.find(kIpuState)->second;
  const NamedTensors& params = state.find(kIpuParam)->second;
  OptimizerLoad load;
  load.optimizer = withAttributes(*optimizer_, params);
  if (hasPrograms()) {
    load.optimizer = optimizer_->succeededBy(*load.optimizer);
  }
  load.updates = static_cast<std::int64_t>(scalarOf(params, kUpdates, DType::I64).at(0));
  if (load.updates < 0) {
    raise<InvalidArgument>("loadOptimizerStateDict: {} updates", load.updates);
  }
  // Weights that no program uses have no state; a dictionary may have some for them.
  std::vector<ir::Variable> expected = optimizerState(*load.optimizer);
  std::erase_if(expected, [&](const ir::Variable& variable) {
    return !tensors.contains(variable.name) &&
           (!hasPrograms() || !session_->contains(variable.name));
  });
  try {
    nn::requireStateDict(expected, tensors);
  } catch (Error& error) {
    error.at(fmt::format("optimizer state of {}", optimizer_->name()));
    throw;
  }
  return load;
}

void ModelCore::commit(OptimizerLoad load, const NamedTensors& state) {
  forgetCalls();
  for (const auto& [name, tensor] : state) {
    session_->set(name, tensor);
  }
  optimizer_ = std::move(load.optimizer);
  counts_->updates = load.updates;
  stateLoaded_ = true;
}

void ModelCore::loadOptimizerStateDict(const OptimizerStateDict& state) {
  const runtime::Turn::Hold turn = enter();
  commit(checked(state), state.find(kIpuState)->second);
}

/// What was loaded before the first compile has a value for everything that the program keeps.
void ModelCore::requireLoadedState(const std::function<bool(const std::string&)>& has) const {
  if (!stateLoaded_ || hasPrograms() || !training()) {
    return;
  }
  for (const ir::Variable& variable : optimizerState(*optimizer_)) {
    if (has(variable.name) && !session_->contains(variable.name)) {
      raise<InvalidArgument>("the optimizer state that was loaded has no '{}'", variable.name);
    }
  }
}

RngState ModelCore::rngState() const {
  const runtime::Turn::Hold turn = enter();
  return {rngSeed_, counts_->microBatches};
}

void ModelCore::setRngState(const RngState& state) {
  const runtime::Turn::Hold turn = enter();
  forgetCalls();
  if (state.microBatch < 0) {
    raise<InvalidArgument>("setRngState: micro-batch {}", state.microBatch);
  }
  rngSeed_ = state.seed;
  counts_->microBatches = state.microBatch;
}

TrainingState ModelCore::trainingState() const {
  const runtime::Turn::Hold turn = enter();
  requireTraining("trainingState");
  TrainingState state{.model = stateDict(),
                      .optimizer = optimizerStateDict(),
                      .rng = rngState(),
                      .replicas = {},
                      .run = runId_,
                      .rule = std::string(optimizer_->name())};
  if (options_.state().broadcastBuffers || !hasPrograms()) {
    return state;
  }
  for (std::size_t r = 1; r < session_->numReplicas(); ++r) {
    NamedTensors& buffers = state.replicas.emplace_back();
    for (const ir::Variable& variable : variables()) {
      if (variable.role == ir::VariableRole::Buffer && session_->contains(variable.name)) {
        buffers.emplace(variable.name, session_->read(variable.name, r));
      }
    }
  }
  return state;
}

void ModelCore::loadTrainingState(const TrainingState& state) {
  const runtime::Turn::Hold turn = enter();
  if (training() && !state.rule.empty() && state.rule != optimizer_->name()) {
    raise<InvalidArgument>(
        "loadTrainingState: the state was saved by {}, this model's optimizer is {}: make the "
        "model with {}, or load the weights alone with loadStateDict",
        state.rule,
        optimizer_->name(),
        state.rule);
  }
  const std::vector<ir::Variable> all = variables();
  nn::requireStateDict(all, state.model);
  for (const NamedTensors& buffers : state.replicas) {
    if (!buffers.empty()) {
      nn::requireStateDict(all, buffers, nn::Strict::No);
    }
  }
  OptimizerLoad load = checked(state.optimizer);
  session_->settle();  // may throw; nothing has changed yet
  setRngState(state.rng);
  loadStateDict(state.model);
  commit(std::move(load), state.optimizer.find(kIpuState)->second);
  if (!state.run.empty()) {
    runId_ = state.run;
  }
  if (!options_.state().broadcastBuffers) {
    for (std::size_t r = 0; r < state.replicas.size(); ++r) {
      for (const auto& [name, tensor] : state.replicas[r]) {
        session_->set(name, tensor, r + 1);
      }
    }
  }
}

}  // namespace sluice
