#include "sluice/api/graph_source.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "sluice/api/available_memory.h"
#include "sluice/api/compile_plan.h"
#include "sluice/api/marked_loss.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/nn/block.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/tracer.h"

namespace sluice {
namespace {

std::string graphName(const TraceRequest& request) {
  const std::string& given = request.options.report().modelName;
  return !given.empty() ? given : request.training ? "training" : "inference";
}

/// Adds all leaves of a result: output0, output1.mask or, of a result with named parts, the names.
Structure<std::size_t> addOutputs(ir::Graph& graph, const SymbolicStructure& result) {
  std::size_t count = 0;
  Structure<std::size_t> outputs =
      result.map([&](const nn::Tensor& tensor, const std::string& path) {
        const bool named = result.kind() == StructureKind::Named;
        graph.addOutput(named ? path : fmt::format("output{}", path.empty() ? "0" : path),
                        tensor.value());
        return count++;
      });
  if (count == 0) {
    raise<InvalidArgument>("forward returned nothing");
  }
  return outputs;
}

std::string tableOf(std::string_view title, std::span<const ir::Variable> variables) {
  std::string text = fmt::format("{}\n", title);
  for (const ir::Variable& variable : variables) {
    text += fmt::format("  {}  {}\n", variable.name, variable.type.str());
  }
  return text;
}

class ModuleSource : public GraphSource {
 public:
  ModuleSource(nn::Module& module,
               Forward forward,
               std::vector<Input> inputs,
               ModuleSourceOptions options)
      : options_(std::move(options)),
        module_(module),
        link_(module.link()),
        forward_(std::move(forward)),
        inputs_(std::move(inputs)) {}

  TracedGraph trace(const TraceRequest& request) const override {
    requireModule();
    TracedGraph traced{ir::Graph(graphName(request))};
    ir::Graph& graph = traced.graph;
    // Declared first, so that variables have the module's order and not that of their first use.
    for (const nn::Parameter* parameter : module_.parameters()) {
      graph.addVariable(parameter->variable());
    }
    nn::Tracer tracer(graph, request.training ? nn::TraceMode::Training : nn::TraceMode::Inference);
    tracer.nameModules(!request.options.report().disableModuleNamescope);
    tracer.setPrecision(request.options.precision.traced());
    tracer.beginModel(module_);
    traced.result = addOutputs(graph, forward_(arguments(tracer, request.inputs)));
    traced.outputs = graph.outputs().size();
    nn::requireBegunBlocks(module_);
    nn::requireBlocks(graph);
    noteModule();
    traced.loss = traced.outputs - 1;
    if (request.training) {
      const std::optional<std::size_t> marked = markedLossOutput(graph);
      if (!marked && options_.lossIsSaid == LossIsSaid::No) {
        requireLossLast(graph, traced.loss);
      }
      traced.loss = marked.value_or(traced.loss);
    }
    traced.warnings = availableMemoryWarnings(graph, tracer.memoryHints(), request.options);
    traced.tensors = compiler::namedTensors(graph, ir::Pass::Forward);
    return traced;
  }

  std::shared_ptr<Session> session(const Options& options) override {
    requireModule();
    return std::dynamic_pointer_cast<Session>(link_->storeOr([&] {
      const std::uint64_t seed = options.randomSeed().value_or(module_.seed());
      auto made = std::make_shared<Session>(options, seed);
      module_.setSeed(seed);  // values read before the first compile are those it will start from
      return made;
    }));
  }

  void setSession(std::shared_ptr<Session> session) override {
    link_->setStore(std::move(session));
  }

  void release() override {
    if (!link_->isAlive()) {
      link_->setStore(nullptr);
      return;
    }
    // The values first: once there is no store, another thread may start from them.
    const auto session = std::dynamic_pointer_cast<Session>(link_->store());
    for (const auto& list : {module_.parameters(), module_.buffers()}) {
      for (nn::Parameter* parameter : list) {
        const std::string name = parameter->fullName();
        if (session != nullptr && session->isTorn(name)) {
          log::warn("model", "'{}' is torn by a step that failed: it starts anew", name);
        } else if (session != nullptr && session->contains(name)) {
          parameter->startFrom(session->read(name));
        }
      }
    }
    link_->setStore(nullptr);
  }

  void requireBuffers() const override {
    if (!link_->isAlive() || module_.changes() == changes_) {
      return;
    }
    const std::vector<nn::Parameter*> now = module_.buffers();
    for (const auto& [buffer, name] : buffers_) {
      if (std::ranges::find(now, buffer) == now.end()) {
        raise<InvalidArgument>(
            "buffer '{}' was deleted or replaced after the model was compiled with it", name);
      }
    }
    changes_ = module_.changes();
  }

  std::vector<ir::Variable> variables() const override {
    if (!link_->isAlive()) {
      return variables_;
    }
    std::vector<ir::Variable> all;
    for (const auto& list : {module_.parameters(), module_.buffers()}) {
      for (const nn::Parameter* parameter : list) {
        all.push_back(parameter->variable());
      }
    }
    return all;
  }

  nn::Module* module() override {
    requireModule();
    return &module_;
  }
  const std::vector<Input>& inputs() const override { return inputs_; }
  std::string summary() const override {
    return link_->isAlive() ? module_.summary() : tableOf("module that is gone", variables_);
  }

 private:
  std::vector<SymbolicStructure> arguments(nn::Tracer& tracer,
                                           const Structure<TensorType>& types) const {
    std::vector<SymbolicStructure> all;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto input = [&](const TensorType& type, const std::string& path) {
        return tracer.input(path, type);
      };
      const auto constant = [](const HostTensor& value, const std::string& /*path*/) {
        return nn::constant(value);
      };
      all.push_back(types[i].isAbsent() ? inputs_[i].byDefault.value().map(constant)
                                        : types[i].map(input, inputs_[i].name));
    }
    return all;
  }

  void requireModule() const {
    if (!link_->isAlive()) {
      raise<InvalidArgument>(
          "the module of this model is gone: programs that are compiled still run, but nothing new "
          "can be compiled; keep the module alive as long as the model, or give the model a "
          "std::shared_ptr or std::unique_ptr of it");
    }
  }

  /// What is needed of the module once it is gone, and what must not change while it is there.
  void noteModule() const {
    variables_ = variables();
    buffers_.clear();
    for (const nn::Parameter* buffer : module_.buffers()) {
      buffers_.emplace_back(buffer, buffer->fullName());
    }
    changes_ = module_.changes();
  }

  ModuleSourceOptions options_;
  nn::Module& module_;  // may be gone: see link_
  std::shared_ptr<nn::StateLink> link_;
  Forward forward_;
  std::vector<Input> inputs_;
  mutable std::vector<ir::Variable> variables_;  // when the module was traced last
  // When the module was traced or looked at last; names, because the buffers may be gone.
  mutable std::vector<std::pair<const nn::Parameter*, std::string>> buffers_;
  mutable std::uint64_t changes_ = 0;
};

class BuilderSource : public GraphSource {
 public:
  BuilderSource(Builder& builder, std::optional<TensorId> loss, bool constantWeights)
      : link_(builder.link()),
        graph_(builder.graph()),
        outputs_(graph_.outputs().size()),
        constantWeights_(constantWeights) {
    if (loss) {
      const ir::Value value = builder.value(*loss);
      const auto outputs = graph_.outputs();
      loss_ = static_cast<std::size_t>(std::ranges::find(outputs, value, &ir::Output::value) -
                                       outputs.begin());
      if (loss_ == outputs_) {
        graph_.addOutput(*loss, value);
      }
    } else if (outputs_ == 0) {
      raise<InvalidArgument>("graph '{}' has no output: call addOutputTensor", graph_.name());
    }
    for (const ir::OpId id : graph_.inputs()) {
      ops_.push_back(id);
      inputs_.emplace_back(graph_.op(id).name);
    }
    std::vector<Structure<std::size_t>> positions;
    for (std::size_t i = 0; i < outputs_; ++i) {
      positions.emplace_back(i);
    }
    result_ = Structure<std::size_t>::list(std::move(positions));
    for (const TensorId& id : builder.tensorIds()) {
      tensors_.push_back({id, builder.value(id)});
    }
  }

  TracedGraph trace(const TraceRequest& request) const override {
    requireInputs(request.inputs);
    TracedGraph traced{graph_, outputs_, loss_, tensors_, result_};
    traced.graph.setName(graphName(request));
    if (constantWeights_) {
      requireWeightsOnDevices(request.options);
      fixWeights(traced);
    }
    traced.cutIntoStages = true;
    return traced;
  }

  std::shared_ptr<Session> session(const Options& options) override {
    if (!link_->isAlive()) {
      raise<InvalidArgument>("the Builder of graph '{}' is gone", graph_.name());
    }
    return std::dynamic_pointer_cast<Session>(link_->storeOr(
        [&] { return std::make_shared<Session>(options, options.randomSeed().value_or(0)); }));
  }

  void setSession(std::shared_ptr<Session> session) override {
    link_->setStore(std::move(session));
  }

  void release() override {
    // A Builder's weights have no other home than the session, which keeps them on the host.
    if (auto session = std::dynamic_pointer_cast<Session>(link_->store())) {
      session->detach();
    }
    if (!link_->isAlive()) {
      link_->setStore(nullptr);
    }
  }

  void requireBuffers() const override {}

  bool hasConstantWeights() const override { return constantWeights_; }

  std::vector<ir::Variable> variables() const override {
    std::vector<ir::Variable> all;
    for (const ir::VariableRole role : {ir::VariableRole::Weight, ir::VariableRole::Buffer}) {
      for (const ir::Variable& variable : graph_.variables()) {
        if (variable.role == role) {
          all.push_back(variable);
        }
      }
    }
    return all;
  }

  nn::Module* module() override { return nullptr; }
  const std::vector<Input>& inputs() const override { return inputs_; }
  std::string summary() const override {
    return tableOf(fmt::format("graph '{}'", graph_.name()), graph_.variables());
  }

 private:
  void requireInputs(const Structure<TensorType>& given) const {
    for (std::size_t i = 0; i < given.size(); ++i) {
      const ir::Op& input = graph_.op(ops_[i]);
      if (given[i] != Structure(input.outputs[0])) {
        raise<InvalidArgument>("input '{}' of graph '{}' is {} per micro-batch, got {}",
                               input.name,
                               graph_.name(),
                               input.outputs[0].str(),
                               given[i].kind() == StructureKind::Tensor ? given[i].tensor().str()
                                                                        : given[i].describe());
      }
    }
  }

  static void requireWeightsOnDevices(const Options& options) {
    const Strategy strategy = cutIntoPhases(options).value_or(options.executionStrategy());
    if (parallel::isPhased(strategy.kind()) ||
        !options.tensorLocations.plan().weight.onChip.value_or(true)) {
      raise<InvalidArgument>(
          "constantWeights: constants cannot be off the devices, and these options keep weights in "
          "remote memory; make the session with constantWeights = false");
    }
  }

  /// Puts constants in place of the reads of variables.
  void fixWeights(TracedGraph& traced) const {
    ir::Graph& graph = traced.graph;
    const std::shared_ptr<nn::StateStore> store = link_->store();
    std::unordered_map<ir::Value, ir::Value> constants;
    std::vector<ir::OpId> reads;
    for (const ir::OpId id : std::vector(graph.order().begin(), graph.order().end())) {
      const ir::Op& op = graph.op(id);
      if (!op.is(ir::kVariable)) {
        continue;
      }
      const std::string& name = op.attrs.text("var");
      const auto session = std::dynamic_pointer_cast<Session>(store);
      HostTensor value = store != nullptr && store->contains(name)
                             ? store->read(name)
                             : ir::initialValue(*graph.findVariable(name),
                                                session == nullptr ? 0 : session->seed());
      const ir::OpId constant = graph.insertBefore(id,
                                                   {.def = ir::kConstant,
                                                    .attrs = {{"value", std::move(value)}},
                                                    .name = op.name,
                                                    .place = op.place});
      constants.emplace(op.out(), graph.op(constant).out());
      reads.push_back(id);
    }
    graph.replaceUses(constants);
    graph.remove(reads);
    for (NamedTensor& tensor : traced.tensors) {
      const auto found = constants.find(tensor.value);
      tensor.value = found == constants.end() ? tensor.value : found->second;
    }
  }

  std::shared_ptr<nn::StateLink> link_;
  ir::Graph graph_;
  std::size_t outputs_;
  bool constantWeights_;
  std::size_t loss_ = 0;
  std::vector<ir::OpId> ops_;  // of the inputs
  std::vector<Input> inputs_;
  Structure<std::size_t> result_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace

std::unique_ptr<GraphSource> moduleSource(nn::Module& module,
                                          Forward forward,
                                          std::vector<Input> inputs,
                                          ModuleSourceOptions options) {
  return std::make_unique<ModuleSource>(
      module, std::move(forward), std::move(inputs), std::move(options));
}

std::unique_ptr<GraphSource> builderSource(Builder& builder,
                                           std::optional<TensorId> loss,
                                           bool constantWeights) {
  return std::make_unique<BuilderSource>(builder, std::move(loss), constantWeights);
}

/// Another thread may destroy the last model of the source between two lines of the loop.
SessionTurn takeSession(GraphSource& source, const Options& options) {
  for (;;) {
    std::shared_ptr<Session> session = source.session(options);
    runtime::Turn::Hold turn(session->turn());
    if (source.session(options) != session) {
      continue;
    }
    if (session->hasModels() || session->otherDevices(options).empty()) {
      return {std::move(session), std::move(turn)};
    }
    // No model lives, so nothing ties the next one to the devices of the last.
    auto next = std::make_shared<Session>(options, options.randomSeed().value_or(session->seed()));
    next->continueFrom(*session);
    source.setSession(std::move(next));
  }
}

}  // namespace sluice
