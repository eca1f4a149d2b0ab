#include "sluice/api/model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "sluice/api/compile_progress.h"
#include "sluice/api/option_support.h"
#include "sluice/api/training_graph.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/nn/block.h"
#include "sluice/ops/elementwise.h"
#include "sluice/transforms/decompose.h"

namespace sluice {
namespace {

/// The tensors of a call, cut into micro-batches without a copy.
class TensorFeed : public runtime::HostFeed {
 public:
  TensorFeed(std::span<const HostTensor> inputs, const BatchLayout& layout)
      : inputs_(inputs), layout_(layout) {}
  const void* take(std::int32_t input, std::int64_t microBatch) override {
    const HostTensor& tensor = inputs_[static_cast<std::size_t>(input)];
    const auto bytes = tensor.byteCount() / static_cast<std::size_t>(layout_.inputFactor());
    const std::int64_t part = microBatch / layout_.replicationFactor * layout_.inputReplicas() +
                              layout_.inputOf(microBatch % layout_.replicationFactor);
    return tensor.bytes() + bytes * static_cast<std::size_t>(part);
  }

 private:
  std::span<const HostTensor> inputs_;
  const BatchLayout& layout_;
};

/// Joins the micro-batches of each output along the first dimension, or adds them up, as the layout
/// of that output says.
class TensorSink : public runtime::HostSink {
 public:
  TensorSink(const program::Program& program, std::vector<BatchLayout> layouts)
      : layouts_(std::move(layouts)) {
    for (std::size_t o = 0; o < program.drains.size(); ++o) {
      const TensorType& type = program.drains[o].type;
      results_.emplace_back(TensorType{type.dtype, layouts_[o].outputShape(type.shape)});
      bytes_.push_back(type.bytes());
    }
  }

  void put(std::int32_t output, std::int64_t microBatch, const void* data) override {
    const auto o = static_cast<std::size_t>(output);
    const BatchLayout& layout = layouts_[o];
    const std::int64_t replica = microBatch % layout.replicationFactor;
    const std::int64_t inReplica = microBatch / layout.replicationFactor;
    const std::int64_t slot =
        inReplica / layout.outputDivisor() * layout.replicationFactor + replica;
    std::byte* to = results_[o].bytes() + bytes_[o] * static_cast<std::size_t>(slot);
    if (layout.outputMode == OutputMode::Sum && inReplica > 0) {
      add(results_[o].dtype(), to, data, bytes_[o]);
    } else if (bytes_[o] > 0) {
      std::memcpy(to, data, bytes_[o]);
    }
  }

  std::vector<HostTensor> results() { return std::move(results_); }

 private:
  /// In the output's own type, one rounding per micro-batch.
  static void add(DType dtype, void* sum, const void* data, std::size_t bytes) {
    dispatch(dtype, [&]<class T>(T) {
      auto* out = static_cast<T*>(sum);
      const auto* in = static_cast<const T*>(data);
      for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
        if constexpr (std::is_same_v<T, bool>) {
          out[i] = out[i] || in[i];
        } else {
          out[i] = ops::narrow<T>(ops::widen(out[i]) + ops::widen(in[i]));
        }
      }
    });
  }

  std::vector<BatchLayout> layouts_;  // by output
  std::vector<HostTensor> results_;
  std::vector<std::size_t> bytes_;
};

std::shared_ptr<Session> sessionOf(nn::Module& module, const Options& options) {
  if (auto existing = std::dynamic_pointer_cast<Session>(module.store())) {
    existing->requireSameDevices(options);
    return existing;
  }
  const std::uint64_t seed = options.randomSeed().value_or(module.seed());
  auto session = std::make_shared<Session>(options, seed);
  module.setStore(session);
  module.setSeed(seed);  // values read before the first compile are those it will start from
  return session;
}

}  // namespace

void detail::requireInputs(std::size_t given, std::size_t taken) {
  if (given != taken) {
    raise<InvalidArgument>("the model's forward takes {} inputs, got {}", taken, given);
  }
}

Model::Model(nn::Module& module,
             Forward forward,
             const Options& options,
             std::unique_ptr<optim::Optimizer> optimizer)
    : module_(module),
      forward_(std::move(forward)),
      options_(options),
      layout_(BatchLayout::of(options, optimizer ? RunKind::Training : RunKind::Inference)),
      optimizer_(std::move(optimizer)) {
  detail::requireSupported(options_);
  if (continuous() && options_.training.gradientAccumulation() != 1) {
    raise<InvalidArgument>(
        "continuousWeightUpdates applies every gradient at once: gradientAccumulation must be 1, "
        "got {}",
        options_.training.gradientAccumulation());
  }
  session_ = sessionOf(module_, options_);
  for (const std::string& line : options_.fromEnvironment()) {
    log::info("options", "from SLUICE_DEFAULT_OPTIONS: {}", line);
  }
  if (const std::string& folder = options_.report().profileDir; !folder.empty()) {
    recorder_ =
        std::make_unique<profile::StepRecorder>(std::filesystem::path(folder) / programName());
  }
  options.freeze();
  options_.freeze();
}

bool Model::continuous() const {
  return training() && options_.compile().continuousWeightUpdates;
}

std::int32_t Model::microBatchesPerRound() const {
  return training() && !continuous() ? options_.training.gradientAccumulation()
                                     : options_.deviceIterations();
}

program::DrainRule Model::drainRule() const {
  const bool everyN = layout_.outputMode == OutputMode::EveryN;
  return {.every = everyN ? options_.outputPeriod() : 1,
          .finalOnly = layout_.outputMode == OutputMode::Final};
}

Model::Signature Model::signatureOf(std::span<const HostTensor> inputs) const {
  Signature signature;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = inputs[i].shape();
    const std::int64_t microBatch = layout_.microBatchOf(fmt::format("input {}", i), shape);
    std::vector<std::int64_t> dims = shape.dims();
    if (!dims.empty()) {
      dims[0] = microBatch;
    }
    signature.push_back({inputs[i].dtype(), Shape(std::move(dims))});
  }
  if (!programs_.empty()) {
    const Signature& first = programs_.front().first;
    if (first.size() != signature.size()) {
      raise<InvalidArgument>("the model takes {} inputs, got {}", first.size(), signature.size());
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (first[i].dtype != signature[i].dtype ||
          first[i].shape.rank() != signature[i].shape.rank()) {
        raise<InvalidArgument>(
            "input {} was {} per micro-batch when the model was compiled and is {} now: another "
            "extent compiles a second program, another type or rank does not fit",
            i,
            first[i].str(),
            signature[i].str());
      }
    }
  }
  return signature;
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

ir::Graph Model::trace(const Signature& signature) const {
  ir::Graph graph(programName());
  ir::Value loss;
  // Declared first, so that variables have the module's order and not that of their first use.
  for (const nn::Parameter* parameter : module_.parameters()) {
    graph.addVariable(parameter->variable());
  }
  {
    nn::Tracer tracer(graph, training() ? nn::TraceMode::Training : nn::TraceMode::Inference);
    tracer.nameModules(!options_.report().disableModuleNamescope);
    std::vector<nn::Tensor> inputs;
    for (std::size_t i = 0; i < signature.size(); ++i) {
      inputs.push_back(tracer.input(fmt::format("input{}", i), signature[i]));
    }
    const std::vector<nn::Tensor> outputs = forward_(inputs);
    if (outputs.empty()) {
      raise<InvalidArgument>("forward returned nothing");
    }
    nn::requireBegunBlocks(module_);
    nn::requireBlocks(graph);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      graph.addOutput(fmt::format("output{}", i), outputs[i].value());
    }
    loss = outputs.back().value();
  }
  if (training()) {
    // Composites are differentiated through their parts; the loss keeps its place as last output.
    transforms::decompose(graph, [](const ir::Op&) { return false; });
    loss = graph.outputs().back().value;
    addTraining(graph,
                loss,
                *optimizer_,
                {.accumulation = options_.training.gradientAccumulation(),
                 .reduction = options_.training.accumulationReduction(),
                 .meanStrategy = options_.training.meanReductionStrategy(),
                 .replicas = options_.replicationFactor()});
  }
  return graph;
}

runtime::LoadedProgram& Model::programFor(const Signature& signature) {
  for (auto& [known, program] : programs_) {
    if (known == signature) {
      return *program;
    }
  }
  CompileProgress progress(options_.compile().showProgressBar);
  progress.begin(CompilePhase::Trace);
  ir::Graph graph = trace(signature);
  programs_.emplace_back(
      signature,
      session_->compile(
          std::move(graph), microBatchesPerRound(), drainRule(), options_, &progress));
  progress.finish();
  compilationSeconds_ += progress.seconds();
  const bool batched = !signature.empty() && signature[0].shape.rank() > 0;
  layout_.microBatch = batched ? signature[0].shape[0] : 1;
  return *programs_.back().second;
}

void Model::compile(std::span<const HostTensor> inputs) {
  programFor(signatureOf(inputs));
}

void Model::writeStepScalars() {
  for (const auto& [name, value] : optimizer_->scalars(schedule_.at(updates_))) {
    if (session_->contains(name)) {
      session_->fill(name, value);
    }
  }
}

std::vector<HostTensor> Model::run(std::span<const HostTensor> inputs) {
  runtime::LoadedProgram& program = programFor(signatureOf(inputs));
  const std::int64_t total = microBatchesPerStep();
  if (training()) {
    writeStepScalars();
  }
  TensorFeed feed(inputs, layout_);
  TensorSink sink(program.program(),
                  std::vector<BatchLayout>(program.program().drains.size(), layout_));
  session_->run(program,
                {.feed = feed,
                 .sink = sink,
                 .rounds = training() && !continuous() ? options_.deviceIterations() : 1,
                 .seed = session_->seed(),
                 .firstMicroBatch = microBatches_,
                 .times = recorder_ ? recorder_->begin() : nullptr});
  microBatches_ += total * options_.replicationFactor();
  if (training()) {
    updates_ += options_.deviceIterations();
  }
  if (recorder_) {
    recorder_->end(program.program());
  }
  return sink.results();
}

void Model::setOptimizer(const optim::Optimizer& optimizer) {
  if (!training() || optimizer.name() != optimizer_->name()) {
    raise<InvalidArgument>("the model was made with {}; setOptimizer got {}",
                           training() ? optimizer_->name() : "no optimizer",
                           optimizer.name());
  }
  optimizer_ = optimizer.clone();
}

const program::Program& Model::program() const {
  if (programs_.empty()) {
    raise<InvalidArgument>("the model is not compiled yet: call it or compile() first");
  }
  return programs_.back().second->program();
}

std::string Model::summary() const {
  std::string text = module_.summary();
  for (const auto& [signature, loaded] : programs_) {
    std::vector<std::string> types;
    for (const TensorType& type : signature) {
      types.push_back(type.str());
    }
    const program::Program& p = loaded->program();
    std::size_t kernels = 0;
    for (const program::Segment& segment : p.segments) {
      kernels += segment.calls.size();
    }
    text += fmt::format(
        "{} program for ({}): {} kernels, {} bytes of state, {} bytes of activations and "
        "scratch\n",
        p.name,
        fmt::join(types, ", "),
        kernels,
        p.devices[0].stateBytes,
        p.devices[0].transientBytes);
  }
  return text;
}

}  // namespace sluice
