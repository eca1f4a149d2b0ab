// compile(): a function is traced once to see what it does, then wrapped as a Model whose
// micro-batches are the iterations of its loop.
#include <atomic>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/api/graph_source.h"
#include "sluice/api/model_core.h"
#include "sluice/api/queue_io.h"
#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "sluice/frontends/tensorflow/function_sink.h"
#include "sluice/frontends/tensorflow/function_trace.h"
#include "sluice/frontends/tensorflow/loops.h"
#include "sluice/nn/tracer.h"

namespace sluice {
namespace {

/// In remote memory, on the devices, or, if that is not said, in remote memory unless the options
/// have a place for it.
void placeOptimizerState(Options& options, std::optional<bool> offload) {
  TensorLocationSettings location = options.tensorLocations.optimizer();
  if (offload || !location.values().onChip) {
    options.tensorLocations.setOptimizerLocation(
        location.useOnChipStorage(!offload.value_or(true)));
  }
}

/// The options of the model: those given, with the counts of the loop.
Options optionsFor(const Options& given, const FunctionPlan& plan) {
  if (given.deviceIterations() != 1 || given.training.gradientAccumulation() != 1 ||
      given.outputMode() != OutputMode::Default) {
    raise<InvalidArgument>(
        "compile: {} counts its iterations and the mini-batches of an update itself, and its "
        "outfeed says what comes back: leave deviceIterations, gradientAccumulation and outputMode "
        "of the options as they are",
        plan.kind);
  }
  Options options = given;
  const bool all = plan.outfeed != nullptr && plan.outfeed->mode() == data::OutfeedMode::All;
  options.outputMode(all ? OutputMode::All : OutputMode::Final);
  if (!plan.update) {
    options.deviceIterations(plan.microBatches);
  } else {
    if (plan.microBatches % plan.perUpdate != 0) {
      raise<InvalidArgument>(
          "compile: {} iterations are no multiple of the {} mini-batches of an update",
          plan.microBatches,
          plan.perUpdate);
    }
    options.deviceIterations(plan.microBatches / plan.perUpdate);
    options.training.gradientAccumulation(plan.perUpdate)
        .replicationReductionType(
            given.training.replicationReductionType().value_or(Reduction::Mean));
    if (plan.accumulation) {
      options.training.accumulationAndReplicationReductionType(plan.accumulation->reduction);
      placeOptimizerState(options, plan.accumulation->offloadWeightUpdateVariables);
    }
  }
  if (plan.configure) {
    plan.configure(options);
  }
  return options;
}

void requireReplicas(const FunctionPlan& plan, const Options& options) {
  if (plan.kind == "repeat" && plan.update && !plan.update->crossesReplicas() &&
      options.replicationFactor() > 1) {
    raise<InvalidArgument>(
        "minimize: there are {} replicas, whose weights would differ: wrap the optimizer in "
        "CrossReplicaOptimizer",
        options.replicationFactor());
  }
}

data::Types typesOf(std::span<const HostTensor> tensors) {
  data::Types types;
  for (const HostTensor& tensor : tensors) {
    types.push_back(tensor.type());
  }
  return types;
}

std::string listed(const data::Types& types) {
  std::vector<std::string> texts;
  for (const TensorType& type : types) {
    texts.push_back(type.str());
  }
  return fmt::format("({})", fmt::join(texts, ", "));
}

}  // namespace

class CompiledFunction::Impl {
 public:
  Impl(nn::Module* module, const Options& options, nn::Body function)
      : noModule_(module == nullptr ? std::make_unique<nn::Module>() : nullptr),
        module_(module == nullptr ? *noModule_ : *module),
        link_(module_.link()),
        options_(options),
        function_(std::move(function)) {}

  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  void compile(std::span<const HostTensor> inputs);
  /// Does not wait for a call, which can be cancelled by what it returns.
  Model& model() {
    if (!built_.load()) {
      raise<InvalidArgument>("compile: the function has no model before its first call");
    }
    return *model_;
  }

 private:
  /// Once.
  void build(std::span<const HostTensor> arguments);
  void buildWithTurn(std::span<const HostTensor> arguments, Session& session);
  FunctionPlan discover(Session& session);
  std::vector<nn::Tensor> trace(std::span<const nn::Tensor> items) const;
  std::unique_ptr<Model> onceModel(FunctionPart part);
  std::unique_ptr<optim::Optimizer> optimizer() const;
  void writeInputs(std::span<const HostTensor> inputs);
  HostTensor resultOf(const std::string& variable, std::span<const HostTensor> inputs);
  data::Types itemTypes() const {
    return plan_.infeed != nullptr ? plan_.infeed->types() : data::Types();
  }

  std::unique_ptr<nn::Module> noModule_;  // of a function without one
  nn::Module& module_;                    // may be gone: see link_
  std::shared_ptr<nn::StateLink> link_;
  Options options_;
  nn::Body function_;
  // All below is written once, with the turn of the module's session, before it is built.
  std::atomic<bool> built_{false};
  std::string prefix_;  // of the variables that hold the function's inputs
  data::Types types_;   // of the function's inputs
  FunctionPlan plan_;
  std::unique_ptr<Model> before_;  // null: there is no such work
  std::unique_ptr<Model> after_;
  std::optional<Model> model_;  // of the loop; not set: not called yet
};

/// Traces the function into a graph that is thrown away.
FunctionPlan CompiledFunction::Impl::discover(Session& session) {
  ir::Graph graph("discovery");
  nn::Tracer tracer(graph, nn::TraceMode::Inference);
  tracer.setPrecision(options_.precision.traced());
  tracer.beginModel(module_);
  FunctionTrace trace(prefix_, types_, std::nullopt);
  trace.awaitInfeed = [&](data::InfeedQueue& infeed) {
    static_cast<void>(session.typesOf(infeed));
  };
  const std::vector<nn::Tensor> results = function_(trace.inputs());
  if (trace.plan.kind.empty()) {
    raise<InvalidArgument>(
        "compile: the function calls neither repeat() nor pipeline(); inferenceModel runs a module "
        "once");
  }
  trace.complete(results);
  static_cast<void>(trace.outputs());
  return trace.plan;
}

std::vector<nn::Tensor> CompiledFunction::Impl::trace(std::span<const nn::Tensor> items) const {
  FunctionTrace trace(prefix_, types_, std::vector<nn::Tensor>(items.begin(), items.end()));
  static_cast<void>(function_(trace.inputs()));
  trace.keepLoop(plan_);
  return trace.outputs();
}

/// A model of a part that runs once per call and takes and leaves everything in variables.
std::unique_ptr<Model> CompiledFunction::Impl::onceModel(FunctionPart part) {
  const auto forward = [this, part](std::span<const SymbolicStructure>) -> SymbolicStructure {
    FunctionTrace trace(prefix_, types_, std::nullopt);
    const std::vector<nn::Tensor> results = function_(trace.inputs());
    return trace.keepOnce(part, plan_, results);
  };
  Options options = options_;
  options.modelName(fmt::format(
      "{}{}", options_.report().modelName, part == FunctionPart::Before ? "before" : "after"));
  options.setExecutionStrategy(Options::defaults().executionStrategy())
      .enableProfiling("")
      .logCycleCount(false);
  return std::make_unique<Model>(
      moduleSource(module_, forward, std::vector<Input>()), options, nullptr);
}

std::unique_ptr<optim::Optimizer> CompiledFunction::Impl::optimizer() const {
  if (!plan_.update) {
    return nullptr;
  }
  const optim::Optimizer& optimizer = plan_.update->optimizer();
  return plan_.accumulation ? plan_.accumulation->dtype.applyTo(optimizer) : optimizer.clone();
}

void CompiledFunction::Impl::build(std::span<const HostTensor> arguments) {
  if (!link_->isAlive()) {
    raise<InvalidArgument>(
        "compile: the module of this function is gone, and the function was not called before; "
        "keep the module alive as long as the function");
  }
  const std::unique_ptr<GraphSource> source = moduleSource(module_, nullptr, {});
  const SessionTurn taken = takeSession(*source, options_);
  if (!built_.load()) {  // by another thread meanwhile
    buildWithTurn(arguments, *taken.session);
    built_.store(true);
  }
}

void CompiledFunction::Impl::buildWithTurn(std::span<const HostTensor> arguments,
                                           Session& session) {
  types_ = typesOf(arguments);
  // Functions of one module share its session, and have variables of their own there.
  for (int i = 0; prefix_.empty(); ++i) {
    const std::string name = fmt::format("function{}", i);
    if (!session.contains(FunctionTrace::inputName(name, 0)) &&
        !session.contains(FunctionTrace::carryName(name, 0))) {
      prefix_ = name;
    }
  }
  session.addTemporaries(prefix_ + "/");
  plan_ = discover(session);
  requireReplicas(plan_, options_);
  const Options options = optionsFor(options_, plan_);
  if (plan_.outfeed != nullptr) {
    plan_.outfeed->define(plan_.outfeedTypes, options.replicationFactor(), plan_.outfeedNames);
  }
  const data::Types items = itemTypes();
  const auto forward = [this](std::span<const SymbolicStructure> given) -> SymbolicStructure {
    return trace(SymbolicStructure::list({given.begin(), given.end()}).leaves());
  };
  std::vector<Input> inputs;
  for (std::size_t i = 0; i < items.size(); ++i) {
    inputs.emplace_back(fmt::format("input{}", i));
  }
  Model model(
      moduleSource(module_, forward, std::move(inputs), {LossIsSaid::Yes}), options, optimizer());
  model.compile(items);
  before_ = plan_.before ? onceModel(FunctionPart::Before) : nullptr;
  after_ = plan_.after ? onceModel(FunctionPart::After) : nullptr;
  for (Model* once : {before_.get(), after_.get()}) {
    if (once != nullptr) {
      once->compile(std::span<const TensorType>());
    }
  }
  model_.emplace(std::move(model));
}

void CompiledFunction::Impl::writeInputs(std::span<const HostTensor> inputs) {
  Session& session = model_->session();
  const auto write = [&](const std::string& name, const HostTensor& value) {
    if (session.contains(name)) {
      session.write(name, value);
    }
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    write(FunctionTrace::inputName(prefix_, i), inputs[i]);
  }
  for (std::size_t i = 0; i < plan_.starts.size() && !before_; ++i) {
    write(FunctionTrace::carryName(prefix_, i), inputs[plan_.starts[i].value()]);
  }
}

/// An input, or what a variable holds.
HostTensor CompiledFunction::Impl::resultOf(const std::string& variable,
                                            std::span<const HostTensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (variable == FunctionTrace::inputName(prefix_, i)) {
      return inputs[i];
    }
  }
  return model_->session().read(variable);
}

void CompiledFunction::Impl::compile(std::span<const HostTensor> inputs) {
  if (!built_.load()) {
    build(inputs);
  }
  if (const data::Types given = typesOf(inputs); given != types_) {
    raise<InvalidArgument>(
        "the function was compiled for {}, got {}", listed(types_), listed(given));
  }
}

std::vector<HostTensor> CompiledFunction::Impl::run(std::span<const HostTensor> inputs) {
  compile(inputs);
  // Its calls write variables, run and read, which belongs together: other calls of this function,
  // and other functions and models of the module, wait.
  const runtime::Turn::Hold turn = model_->core().enter();
  writeInputs(inputs);
  if (before_) {
    before_->run(std::span<const HostTensor>());
  }
  const BatchLayout layout = model_->batchLayout();
  std::unique_ptr<runtime::HostFeed> feed;
  if (plan_.infeed != nullptr) {
    feed = std::make_unique<InfeedFeed>(*plan_.infeed, layout);
  } else {
    feed = std::make_unique<TensorFeed>(std::vector<HostTensor>(), layout);
  }
  if (plan_.outfeed != nullptr) {
    plan_.outfeed->begin();
  }
  model_->run(itemTypes(),
              std::move(feed),
              std::make_unique<FunctionSink>(
                  plan_.outfeed, plan_.outfeedTypes, layout.replicationFactor, plan_.outfeedSum));
  if (after_) {
    after_->run(std::span<const HostTensor>());
  }
  std::vector<HostTensor> results;
  for (const std::string& variable : plan_.results) {
    results.push_back(resultOf(variable, inputs));
  }
  return results;
}

CompiledFunction::CompiledFunction(nn::Module* module, const Options& options, nn::Body function)
    : impl_(std::make_unique<Impl>(module, options, std::move(function))) {}
CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&& other) noexcept = default;

CompiledFunction::Impl& CompiledFunction::impl() const {
  if (!impl_) {
    raise<InvalidArgument>("the function was moved from: use the one that it was moved to");
  }
  return *impl_;
}

std::vector<HostTensor> CompiledFunction::run(std::span<const HostTensor> inputs) {
  return impl().run(inputs);
}

void CompiledFunction::compile(std::span<const HostTensor> inputs) {
  impl().compile(inputs);
}

Model& CompiledFunction::model() {
  return impl().model();
}

CompiledFunction compile(nn::Module& module, const Options& options, nn::Body function) {
  return {&module, options, std::move(function)};
}

CompiledFunction compile(const Options& options, nn::Body function) {
  return {nullptr, options, std::move(function)};
}

}  // namespace sluice
