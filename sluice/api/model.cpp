#include "sluice/api/model.h"

#include "sluice/api/model_core.h"
#include "sluice/base/error.h"
#include "sluice/onnx/files.h"

namespace sluice {

void detail::requireGivenModule(const nn::Module* module) {
  if (module == nullptr) {
    raise<InvalidArgument>("a model was to be made of a null pointer: give it a module");
  }
}

Model::Model(std::unique_ptr<GraphSource> source,
             const Options& options,
             std::unique_ptr<optim::Optimizer> optimizer)
    : core_(std::make_unique<ModelCore>(std::move(source), options, std::move(optimizer))) {}

Model::Model(ModuleParts parts, const Options& options, std::unique_ptr<optim::Optimizer> optimizer)
    : Model(moduleSource(parts.module,
                         std::move(parts.forward),
                         std::move(parts.inputs),
                         {.owner = std::move(parts.owner)}),
            options,
            std::move(optimizer)) {}

Model::Model(Model&& other) noexcept = default;
Model::~Model() = default;

ModelCore& Model::core() const {
  if (!core_) {
    raise<InvalidArgument>("the model was moved from: use the one that it was moved to");
  }
  return *core_;
}

bool Model::cancel() {
  return core_ && core_->cancel();
}

runtime::Turn::Hold Model::exclusive() const {
  return core().exclusive();
}

std::int64_t Model::largestInAllProcesses(std::string_view what, std::int64_t number) const {
  return core().largestInAllProcesses(what, number);
}

std::string Model::inFirstProcess(std::string_view what,
                                  const std::function<std::string()>& f) const {
  return core().inFirstProcess(what, f);
}

void Model::destroy() {
  if (core_) {
    core_->destroy();
  }
}

std::vector<HostTensor> Model::run(std::span<const HostTensor> inputs) {
  return core().run(inputs);
}

HostStructure Model::run(const Inputs& inputs) {
  return core().run(inputs);
}

std::vector<HostTensor> Model::run(const Batch& batch) {
  return core().run(batch);
}

void Model::run(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed) {
  core().run(infeed, outfeed);
}

void Model::run(std::span<const TensorType> inputs,
                std::unique_ptr<runtime::HostFeed> feed,
                std::unique_ptr<ResultSink> sink) {
  core().run(inputs, std::move(feed), std::move(sink));
}

void Model::run(std::span<const TensorType> inputs,
                std::unique_ptr<runtime::HostFeed> feed,
                const MakeSink& makeSink) {
  core().run(inputs, std::move(feed), makeSink);
}

NamedTensors Model::run(const NamedTensors& inputs) {
  return core().run(inputs);
}

// All errors arrive in the result.
template <class... Args>
Pending Model::startAsync(Args&&... args) {
  try {
    return core().runAsync(std::forward<Args>(args)...);
  } catch (...) {
    return Pending(std::current_exception());
  }
}

Pending Model::runAsync(std::vector<HostTensor> inputs) {
  return startAsync(std::move(inputs));
}

Pending Model::runAsync(const Inputs& inputs) {
  return startAsync(inputs);
}

Pending Model::runAsync(data::InfeedQueue& infeed, data::OutfeedQueue& outfeed) {
  return startAsync(infeed, outfeed);
}

void Model::compile(std::span<const HostTensor> inputs) {
  core().compile(inputs);
}

void Model::compile(const Inputs& inputs) {
  core().compile(inputs);
}

void Model::compile(std::span<const TensorType> inputs) {
  core().compile(inputs);
}

void Model::compileAgain(std::span<const HostTensor> inputs) {
  core().compileAgain(inputs);
}

void Model::check(std::span<const TensorType> inputs) {
  core().check(inputs);
}

bool Model::isCompiled() const {
  return core_ && core_->isCompiled();
}

double Model::compilationTime() const {
  return core().compilationTime();
}

std::vector<std::string> Model::getTensorNames() const {
  return core().getTensorNames();
}

HostTensor Model::getAnchoredTensor(std::string_view shortName) const {
  return core().getAnchoredTensor(shortName);
}

void Model::detachFromDevice() {
  core().detachFromDevice();
}

void Model::attachToDevice() {
  core().attachToDevice();
}

bool Model::isAttachedToDevice() const {
  return core_ && core_->isAttachedToDevice();
}

void Model::copyWeightsToHost() {
  static_cast<void>(core().enter());
}

void Model::copyWeightsToDevice() {
  static_cast<void>(core().enter());
}

void Model::copyNamedBuffersToDevice() {
  core().copyNamedBuffersToDevice();
}

std::optional<NonFinite> Model::findFirstNonFinite(std::span<const HostTensor> inputs) {
  return core().findFirstNonFinite(inputs);
}

const Options& Model::options() const {
  return core().options();
}

BatchLayout Model::batchLayout() const {
  return core().batchLayout();
}

Session& Model::session() {
  return core().session();
}

nn::Module& Model::module() {
  return core().module();
}

std::int64_t Model::microBatchesPerStep() const {
  return core().microBatchesPerStep();
}

std::string Model::summary() const {
  return core().summary();
}

std::string Model::explain() const {
  return core().explain();
}

std::string Model::getModelProto() const {
  return getModelProto(onnx::Exact::No);
}

std::string Model::getModelProto(onnx::Exact exact) const {
  return core().getModelProto(exact);
}

const program::Program& Model::program() const {
  return core().compiled().program->program();
}

const CompiledProgram& Model::compiled() const {
  return core().compiled();
}

Latency Model::getHostDeviceLatency() const {
  return core().latencies().hostDevice;
}

Latency Model::getComputeLatency() const {
  return core().latencies().compute;
}

Latency Model::getDeviceHostLatency() const {
  return core().latencies().deviceHost;
}

void Model::report(const std::filesystem::path& file, const std::string& predictedOn) const {
  core().report(file, predictedOn);
}

std::filesystem::path Model::writeDiagnostics(const Error& error) const {
  return core().writeDiagnostics(error);
}

std::vector<Suggestion> Model::suggestChanges(std::size_t most, const std::string& target) {
  return core().suggestChanges(most, target);
}

PlanReport Model::findPlan(std::span<const TensorType> inputs, const PlanSettings& settings) {
  return core().findPlan(inputs, settings);
}

SimulatedStep Model::simulateStep() {
  return core().simulateStep();
}

Latency Model::getLatency() const {
  return core().latencies().roundTrip;
}

std::int64_t Model::cycleCount() const {
  return core().cycleCount();
}

std::int64_t Model::updates() const {
  return core().updates();
}

void Model::setLrSchedule(optim::LrSchedule schedule) {
  core().setLrSchedule(std::move(schedule));
}

void Model::setOptimizer(const optim::Optimizer& optimizer) {
  core().setOptimizer(optimizer);
}

std::shared_ptr<const optim::Optimizer> Model::optimizer() const {
  return core().optimizer();
}

std::vector<ir::Variable> Model::variables() const {
  return core().variables();
}

HostTensor Model::read(std::string_view variable, std::size_t replica) const {
  return core().read(variable, replica);
}

NamedTensors Model::stateDict() const {
  return core().stateDict();
}

nn::UnmatchedNames Model::loadStateDict(const NamedTensors& state, nn::Strict strict) {
  return core().loadStateDict(state, strict);
}

OptimizerStateDict Model::optimizerStateDict() const {
  return core().optimizerStateDict();
}

void Model::loadOptimizerStateDict(const OptimizerStateDict& state) {
  core().loadOptimizerStateDict(state);
}

std::string Model::runId() const {
  return core().runId();
}

RngState Model::rngState() const {
  return core().rngState();
}

void Model::setRngState(const RngState& state) {
  core().setRngState(state);
}

TrainingState Model::trainingState() const {
  return core().trainingState();
}

void Model::loadTrainingState(const TrainingState& state) {
  core().loadTrainingState(state);
}

void Model::save(const std::filesystem::path& path, const SaveOptions& options) const {
  core().save(path, options);
}

void Model::compileAndExport(const std::filesystem::path& path,
                             std::span<const HostTensor> inputs,
                             const SaveOptions& options) {
  core().compile(inputs);
  core().save(path, options);
}

void Model::compileAndExport(const std::filesystem::path& path,
                             const Inputs& inputs,
                             const SaveOptions& options) {
  core().compile(inputs);
  core().save(path, options);
}

void Model::loadExecutable(const std::filesystem::path& path, OtherTarget otherTarget) {
  core().loadExecutable(path, otherTarget);
}

}  // namespace sluice
