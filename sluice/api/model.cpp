#include "sluice/api/model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "sluice/api/compile_progress.h"
#include "sluice/api/explain.h"
#include "sluice/api/option_support.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/data/infeed_queue.h"
#include "sluice/data/outfeed_queue.h"

namespace sluice {
namespace {

program::DrainRule drainRule(const BatchLayout& layout) {
  const bool everyN = layout.outputMode == OutputMode::EveryN;
  return {.every = everyN ? static_cast<std::int32_t>(layout.outputPeriod) : 1,
          .finalOnly = layout.outputMode == OutputMode::Final};
}

/// A Builder's pipeline without accumulation updates its weights continuously under the IPU's
/// rules.
Options withContinuousUpdates(const Options& options, bool ofBuilder, bool training) {
  Options result = options;
  if (ofBuilder && training && options.device().enforceIpuRules.value_or(false) &&
      options.compile().enablePipelining && options.training.gradientAccumulation() == 1) {
    result.continuousWeightUpdates(true);
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
void requireRows(const Structure<TensorType>& signature, const std::vector<Input>& declared) {
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

Model::Model(std::unique_ptr<GraphSource> source,
             const Options& options,
             std::unique_ptr<optim::Optimizer> optimizer)
    : source_(std::move(source)),
      options_(withContinuousUpdates(options, source_->module() == nullptr, optimizer != nullptr)),
      layout_(BatchLayout::of(options, optimizer ? RunKind::Training : RunKind::Inference)),
      optimizer_(std::move(optimizer)) {
  detail::requireSupported(options_, source_->module() != nullptr);
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
  session_ = source_->session(options_);
  rngSeed_ = session_->seed();
  for (const std::string& line : options_.fromEnvironment()) {
    log::info("options", "from SLUICE_DEFAULT_OPTIONS: {}", line);
  }
  if (const std::string& folder = options_.report().profileDir; !folder.empty()) {
    recorder_ = std::make_unique<profile::StepRecorder>(
        std::filesystem::path(options_.report().logDir) / folder / programName());
  }
  session_->join(training());
  options.freeze();
  options_.freeze();
}

Model::~Model() {
  if (session_) {
    session_->wait();
    session_->leave(training());
  }
}

void Model::destroy() {
  if (!session_) {
    return;
  }
  session_->wait();
  programs_.clear();
  if (session_->leave(training())) {
    source_->release();
  }
  session_.reset();
}

Session& Model::alive() const {
  if (!session_) {
    raise<InvalidArgument>("the model was destroyed: make a new one of the same module");
  }
  return *session_;
}

void Model::requireNamedBuffers() {
  for (const std::string& name : options_.state().updatableNamedBuffers) {
    std::vector<std::string> known;
    if (source_->module() != nullptr) {
      for (const nn::Parameter* buffer : source_->module()->buffers()) {
        known.push_back(buffer->fullName());
      }
    }
    if (std::ranges::find(known, name) == known.end()) {
      raise<InvalidArgument>("updatableNamedBuffers: the model has no buffer '{}'; it has [{}]",
                             name,
                             fmt::join(known, ", "));
    }
  }
}

bool Model::continuous() const {
  return training() && options_.compile().continuousWeightUpdates;
}

std::int32_t Model::microBatchesPerRound(const BatchLayout& layout) const {
  return static_cast<std::int32_t>(training() && !continuous() ? layout.gradientAccumulation
                                                               : layout.deviceIterations);
}

template <class L>
Structure<L> Model::arrangedLeaves(std::span<const L> leaves) const {
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

HostStructure Model::arranged(std::span<const HostTensor> inputs) const {
  const bool sameAgain = synthetic() && isCompiled() && inputs.empty();
  return sameAgain ? HostStructure() : arrangedLeaves(inputs);
}

Model::Signature Model::arranged(std::span<const TensorType> inputs) const {
  return arrangedLeaves(inputs);
}

Model::Signature Model::signatureOf(const HostStructure& inputs, const BatchLayout& layout) const {
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

std::int64_t Model::rowsOf(const Signature& signature) {
  const std::vector<TensorType> types = signature.leaves();
  return types.empty() || types[0].shape.rank() == 0 ? 1 : types[0].shape[0];
}

std::string Model::programName() const {
  const std::string& given = options_.report().modelName;
  return !given.empty() ? given : training() ? "training" : "inference";
}

const profile::Latencies& Model::latencies() const {
  if (!recorder_ || !recorder_->latencies()) {
    raise<InvalidArgument>(
        "latencies are measured by calls of a model whose options have enableProfiling(folder): {}",
        recorder_ ? "it was not called yet" : "its options do not");
  }
  return *recorder_->latencies();
}

void Model::requireSameKind(const Signature& signature) const {
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

std::vector<BatchLayout> Model::outputLayouts(std::size_t outputs,
                                              const BatchLayout& layout) const {
  std::vector<BatchLayout> layouts(outputs, layout);
  const std::vector<BatchLayout> anchors = layoutsOfAnchors(layout, options_);
  layouts.insert(layouts.end(), anchors.begin(), anchors.end());
  return layouts;
}

Model::Entry Model::makeEntry(const Signature& signature,
                              const BatchLayout& layout,
                              const Options& options,
                              CompileProgress& progress) {
  progress.begin(CompilePhase::Trace);
  TracedGraph traced = trace(signature, layout);
  requireLoadedState(traced.graph);
  alive().warn(traced.warnings, options);
  std::vector<program::DrainRule> rules;
  for (const BatchLayout& each : outputLayouts(traced.outputs, layout)) {
    rules.push_back(drainRule(each));
  }
  CompiledProgram compiled = alive().compile(
      std::move(traced.graph), microBatchesPerRound(layout), std::move(rules), options, &progress);
  const bool lossReturned = training() && traced.loss < traced.outputs;
  return {signature,
          layout,
          traced.outputs,
          std::move(traced.result),
          std::move(compiled),
          lossReturned ? std::optional(traced.loss) : std::nullopt};
}

Model::Entry& Model::entryFor(const Signature& signature, BatchLayout layout) {
  if (training()) {
    requireRows(signature, source_->inputs());
  }
  layout.microBatch = rowsOf(signature);
  for (const auto& entry : programs_) {
    if (entry->signature == signature && entry->layout == layout) {
      return *entry;
    }
  }
  CompileProgress progress(options_.compile().showProgressBar);
  programs_.push_back(std::make_unique<Entry>(makeEntry(signature, layout, options_, progress)));
  progress.finish();
  compilationSeconds_ += progress.seconds();
  return *programs_.back();
}

Model::Entry& Model::entryOf(const HostStructure& inputs, const BatchLayout& layout) {
  alive().wait();
  source_->requireBuffers();
  if (synthetic() && inputs.isAbsent() && !programs_.empty()) {
    return *programs_.back();
  }
  return entryFor(signatureOf(inputs, layout), layout);
}

Model::Entry& Model::entryOf(data::InfeedQueue& infeed, const data::OutfeedQueue& outfeed) {
  alive().wait();
  if (synthetic() || !options_.batch().anchors.empty()) {
    raise<InvalidArgument>(
        "a model that runs on queues has neither synthetic data nor anchored tensors");
  }
  const bool last = outfeed.mode() == data::OutfeedMode::Last;
  const Signature signature = arranged(infeed.types());
  requireSameKind(signature);
  return entryFor(signature, layout_.withOutput(last ? OutputMode::Final : OutputMode::All, 1));
}

Model::Entry& Model::entryOf(const Signature& signature) {
  alive().wait();
  source_->requireBuffers();
  requireSameKind(signature);
  return entryFor(signature, layout_);
}

void Model::compile(std::span<const HostTensor> inputs) {
  entryOf(arranged(inputs), layout_);
}

void Model::compile(const Inputs& inputs) {
  entryOf(bound(inputs), layout_);
}

void Model::compile(std::span<const TensorType> inputs) {
  entryOf(arranged(inputs));
}

const BatchLayout& Model::batchLayout() const {
  return programs_.empty() ? layout_ : programs_.back()->layout;
}

void Model::writeStepScalars() {
  for (const auto& [name, value] : optimizer_->scalars(schedule_.at(counts_->updates))) {
    if (alive().contains(name)) {
      alive().fill(name, value);
    }
  }
}

const std::vector<std::string>& Model::getTensorNames() const {
  static_cast<void>(compiled());
  return tensorNames_;
}

const HostTensor& Model::getAnchoredTensor(std::string_view shortName) const {
  alive().wait();
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

void Model::detachFromDevice() {
  alive().detach();
}

void Model::attachToDevice() {
  Session& session = alive();
  if (options_.device().connection == ConnectionType::Never) {
    raise<InvalidArgument>("connectionType is Never: the model cannot be attached to a device");
  }
  if (!isCompiled()) {
    raise<InvalidArgument>("the model is not compiled yet: call it or compile() before attaching");
  }
  session.attach();
}

bool Model::isAttachedToDevice() const {
  const ConnectionType connection = options_.device().connection;
  return session_ && connection != ConnectionType::Never && session_->isAttached() &&
         (connection == ConnectionType::Always || isCompiled());
}

void Model::copyNamedBuffersToDevice() {
  if (options_.state().updatableNamedBuffers.empty()) {
    raise<InvalidArgument>(
        "copyNamedBuffersToDevice: name the buffers with Options::updatableNamedBuffers");
  }
  alive().wait();
}

std::int64_t Model::cycleCount() const {
  alive().wait();
  if (counts_->cycles == 0) {
    raise<InvalidArgument>(
        "cycles are counted by calls of a model whose options have logCycleCount(true): {}",
        options_.report().logCycleCount ? "it was not called yet" : "its options do not");
  }
  return counts_->cycles;
}

std::int64_t Model::updates() const {
  alive().wait();
  return counts_->updates;
}

nn::Module& Model::module() {
  if (source_->module() == nullptr) {
    raise<InvalidArgument>("the model was made of a Builder and has no module");
  }
  return *source_->module();
}

void Model::setOptimizer(const optim::Optimizer& optimizer) {
  if (!training() || optimizer.name() != optimizer_->name()) {
    raise<InvalidArgument>("the model was made with {}; setOptimizer got {}",
                           training() ? optimizer_->name() : "no optimizer",
                           optimizer.name());
  }
  alive().wait();
  if (isCompiled()) {
    std::unique_ptr<optim::Optimizer> next = optimizer_->succeededBy(optimizer);
    requireSameGroups(alive().state().plan(), *optimizer_, *next);
    optimizer_ = std::move(next);
  } else {
    optimizer_ = optimizer.clone();
  }
  if (options_.training.automaticLossScaling()) {
    optimizer_->markAsVariable("loss_scaling");
  }
}

const CompiledProgram& Model::compiled() const {
  static_cast<void>(alive());
  if (programs_.empty()) {
    raise<InvalidArgument>("the model is not compiled yet: call it or compile() first");
  }
  return programs_.back()->compiled;
}

std::string Model::explain() const {
  return sluice::explain(compiled(), batchLayout(), options_);
}

std::string Model::summary() const {
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
