#include "sluice/api/graph_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/api/available_memory.h"
#include "sluice/api/marked_loss.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/nn/block.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/tracer.h"

namespace sluice {

std::string graphName(const TraceRequest& request) {
  const std::string& given = request.options.report().modelName;
  return !given.empty() ? given : request.training ? "training" : "inference";
}

std::string variableTable(std::string_view title, std::span<const ir::Variable> variables) {
  std::string text = fmt::format("{}\n", title);
  for (const ir::Variable& variable : variables) {
    text += fmt::format("  {}  {}\n", variable.name, variable.type.str());
  }
  return text;
}

namespace {

/// Adds all leaves of a result: output0, output1.mask or, of a result with named parts, the names.
Structure<std::size_t> addOutputs(ir::Graph& graph, const SymbolicStructure& result) {
  std::size_t count = 0;
  Structure<std::size_t> outputs =
      result.map([&](const nn::Tensor& tensor, const std::string& path) {
        if (!tensor.defined()) {
          raise<InvalidArgument>(
              "forward returns an empty tensor{}: give it a value, or return std::nullopt of a "
              "std::optional in its place",
              path.empty() ? "" : fmt::format(" as '{}'", path));
        }
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

/// Names the ops, or the first of many.
std::string joinedWarning(const std::vector<std::string>& ops) {
  constexpr std::size_t kNamed = 8;
  const std::vector<std::string> named(ops.begin(), ops.begin() + std::min(ops.size(), kNamed));
  return fmt::format(
      "{} ops are outside all blocks and join the block before them: {}{}; put them into a Block "
      "to "
      "say where they run",
      ops.size(),
      fmt::join(named, ", "),
      ops.size() > kNamed ? ", ..." : "");
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
    if (options_.looseOps == LooseOps::Refuse ||
        request.options.device().enforceIpuRules.value_or(false)) {
      nn::requireBlocks(graph);
    }
    const std::vector<std::string> joined = nn::joinBlocks(graph);
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
    if (!joined.empty()) {
      traced.warnings.push_back(joinedWarning(joined));
    }
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
    return link_->isAlive() ? module_.summary() : variableTable("module that is gone", variables_);
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

}  // namespace

std::unique_ptr<GraphSource> moduleSource(nn::Module& module,
                                          Forward forward,
                                          std::vector<Input> inputs,
                                          ModuleSourceOptions options) {
  return std::make_unique<ModuleSource>(
      module, std::move(forward), std::move(inputs), std::move(options));
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
