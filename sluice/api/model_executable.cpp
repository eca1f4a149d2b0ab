// A model and its executable: what is saved, and how programs of a file become those of a model.
#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "sluice/api/executable_bytes.h"
#include "sluice/api/executable_cache.h"
#include "sluice/api/executable_file.h"
#include "sluice/api/executable_options.h"
#include "sluice/api/model_core.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/custom/abi.h"
#include "sluice/ir/byte_form.h"
#include "sluice/ops/custom_op.h"
#include "sluice/program/loaded.h"

namespace sluice {
namespace {

/// Throws Unsupported, naming the op, if the graph calls a function of this process.
void requireStorable(const ir::Graph& graph) {
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ops::kHostCall)) {
      raise<Unsupported>(
          "op '{}' calls the function '{}' of this process, which no file can hold: leave it out, "
          "or make "
          "it a custom op",
          op.name,
          op.attrs.text("id"));
    }
  }
}

/// The name of the file in "library '/folder/name.so'", which is how messages call a library.
std::string fileOf(std::string_view origin) {
  const std::size_t open = origin.find('\'');
  const std::size_t close = origin.rfind('\'');
  const std::string_view path = open < close ? origin.substr(open + 1, close - open - 1) : origin;
  return std::filesystem::path(path).filename().string();
}

void addCustomOps(const ir::Graph& graph, std::vector<CustomOpRecord>& used) {
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    const ops::CustomOpInfo custom = ops::customOpOf(*op.def);
    if (custom && std::ranges::find(used, op.def->name, &CustomOpRecord::op) == used.end()) {
      used.push_back({std::string(op.def->name), fileOf(custom.origin), custom::abi::kVersion});
    }
  }
}

/// The plan in which these variables start from these values.
program::StatePlan withInitializers(const program::StatePlan& plan,
                                    const std::map<std::string, ir::Initializer>& initializers) {
  std::vector<program::PlacedVariable> variables = plan.variables();
  for (program::PlacedVariable& placed : variables) {
    if (const auto found = initializers.find(placed.variable.name); found != initializers.end()) {
      placed.variable.initializer = found->second;
    }
  }
  return {std::move(variables), plan.arenas()};
}

/// Throws Unsupported for a variable whose first value is a tensor that the file has no place for.
void requireKnownValues(const program::StatePlan& plan, std::span<const ir::Variable> known) {
  for (const program::PlacedVariable& placed : plan.variables()) {
    const ir::Variable& variable = placed.variable;
    if (variable.initializer.kind == ir::Initializer::Kind::Tensor &&
        std::ranges::find(known, variable.name, &ir::Variable::name) == known.end()) {
      raise<Unsupported>("variable '{}' starts from a tensor and is neither a weight nor a buffer",
                         variable.name);
    }
  }
}

/// A model may be called after its place in a project; its file is in the folder that was given.
std::string fileNameOf(std::string name) {
  std::ranges::replace(name, '/', '_');
  return name;
}

bool sameVariable(const ir::Variable& a, const ir::Variable& b) {
  return a.name == b.name && a.type == b.type && a.role == b.role && a.trainable == b.trainable;
}

}  // namespace

void ModelCore::save(const std::filesystem::path& path, const SaveOptions& options) const {
  const runtime::Turn::Hold turn = enter();
  if (programs_.empty()) {
    raise<InvalidArgument>("save: compile the model first, or use compileAndExport");
  }
  if (session_->processes() != nullptr) {
    raise<Unsupported>(
        "save: an executable is that of one process; make it with distributed.disable(), or save a "
        "checkpoint");
  }
  ExecutableContent content{.training = training(),
                            .madeOfModule = source_->madeOfModule(),
                            .constantWeights = hasConstantWeights(),
                            .seed = session_->seed(),
                            .target = session_->target(),
                            .inputs = source_->inputs(),
                            .variables = source_->variables()};
  content.options = setterCalls(options_.clone().device(content.target.devices));
  if (training()) {
    content.optimizer = optim::recordOf(*optimizer_, content.variables);
  }
  for (const auto& entry : programs_) {
    if (isOutdated(*entry)) {
      raise<InvalidArgument>(
          "save: a compiled program has other weights as constants (constantWeights) than the "
          "model "
          "has now: call or compile the model again first");
    }
    TracedGraph traced = graphFor(entry->signature);
    if (entry->fixed.ofSource && *entry->fixed.ofSource != hashOfConstants(traced.graph)) {
      raise<InvalidArgument>(
          "save: weights of the Builder have changed since they became constants of a compiled "
          "program: make the session again, or make it with constantWeights = false");
    }
    requireStorable(traced.graph);
    addCustomOps(traced.graph, content.customOps);
    content.graphs.push_back(std::move(traced));
    const CompiledProgram& compiled = entry->compiled;
    const program::StatePlan& state = compiled.state ? *compiled.state : session_->state().plan();
    requireKnownValues(state, content.variables);
    content.programs.push_back({.signature = entry->signature,
                                .layout = entry->layout,
                                .outputs = entry->outputs,
                                .result = entry->result,
                                .compiled = {.graph = ir::Graph(""),
                                             .program = compiled.program->program(),
                                             .state = state,
                                             .plan = compiled.plan,
                                             .tensorNames = compiled.tensorNames,
                                             .fetchedLoss = compiled.fetchedLoss,
                                             .warnings = compiled.warnings,
                                             .devices = compiled.devices}});
  }
  if (options.exportModel) {
    content.state = StoredState{.updates = counts_->updates};
    content.state->state = training() ? trainingState() : TrainingState{.model = stateDict()};
    content.state->state.rng = options.saveRngState ? rngState() : RngState{session_->seed(), 0};
  }
  std::error_code unknown;  // the writer says what is wrong with the path
  const bool folder = std::filesystem::is_directory(path, unknown);
  writeExecutable(folder ? path / (fileNameOf(programName()) + ".slx") : path, content);
}

void ModelCore::requireSameModel(const ExecutableFile& file) const {
  const ExecutableContent& content = file.content();
  if (content.training != training()) {
    raise<InvalidArgument>("loadExecutable: '{}' is for {}, this model for {}",
                           file.name(),
                           content.training ? "training" : "inference",
                           training() ? "training" : "inference");
  }
  requireSameCompiled(optionsOf(content.options), options_);
  if (content.constantWeights != hasConstantWeights()) {
    raise<InvalidArgument>(
        "loadExecutable: '{}' has {}, and this model has {}: make the session with constantWeights "
        "= {}, or export again",
        file.name(),
        content.constantWeights ? "weights as constants" : "weights that may change",
        content.constantWeights ? "weights that may change" : "weights as constants",
        content.constantWeights);
  }
  const std::vector<ir::Variable> here = source_->variables();
  const std::vector<ir::Variable>& there = content.variables;
  for (std::size_t v = 0; v < std::max(here.size(), there.size()); ++v) {
    if (v >= here.size() || v >= there.size() || !sameVariable(here[v], there[v])) {
      const auto text = [](const std::vector<ir::Variable>& list, std::size_t i) {
        return i < list.size() ? fmt::format("'{}' {}", list[i].name, list[i].type.str())
                               : std::string("missing");
      };
      raise<InvalidArgument>(
          "loadExecutable: '{}' is of another model: its variable {} is {}, here it is {}",
          file.name(),
          v,
          text(there, v),
          text(here, v));
    }
  }
  const std::vector<Input>& inputs = source_->inputs();
  if (!std::ranges::equal(content.inputs, inputs, {}, &Input::name, &Input::name)) {
    raise<InvalidArgument>("loadExecutable: '{}' is of a model with other inputs", file.name());
  }
  if (training()) {
    static_cast<void>(optim::makeOptimizer(*content.optimizer)->succeededBy(*optimizer_));
    if (optim::recordOf(*optimizer_, here).groupOf != content.optimizer->groupOf) {
      raise<InvalidArgument>("loadExecutable: '{}' is of an optimizer with other groups of weights",
                             file.name());
    }
  }
}

void ModelCore::loadExecutable(const std::filesystem::path& path, OtherTarget otherTarget) {
  const runtime::Turn::Hold turn = enter();
  ExecutableFile file(path);
  requireSameModel(file);
  install(file, otherTarget, MadeOf::SameModel);
}

FixedValues ModelCore::requireSameWeights(const ExecutableFile& file, std::size_t program) const {
  FixedValues fixed;
  if (!file.content().constantWeights) {
    return fixed;
  }
  const TracedGraph here = graphFor(file.content().programs[program].signature, &fixed);
  if (hashOfConstants(here.graph) != hashOfConstants(file.graph(program).graph)) {
    raise<InvalidArgument>(
        "loadExecutable: '{}' has other weights as constants (constantWeights) than this model has "
        "now: load those that it was saved with first (loadStateDict), or make a model of the file "
        "with sluice::load",
        file.name());
  }
  return fixed;
}

void ModelCore::requireFits(const StoredProgram& stored) const {
  const program::Program& p = stored.compiled.program;
  const auto require = [&](bool fits, std::string_view what) {
    if (!fits) {
      raise<FileError>("program '{}' does not fit its model: {}", p.name, what);
    }
  };
  BatchLayout layout = layout_;
  layout.deviceIterations = stored.layout.deviceIterations;
  layout.gradientAccumulation = stored.layout.gradientAccumulation;
  layout.microBatch = rowsOf(stored.signature);
  layout = layout.withOutput(stored.layout.outputMode, stored.layout.outputPeriod);
  require(layout == stored.layout && (training() || layout.gradientAccumulation == 1),
          "the sizes of its calls");
  require(p.training == training(), "whether it trains");
  require(p.microBatchesPerRound == microBatchesPerRound(layout), "the micro-batches of a round");
  const std::vector<TensorType> inputs =
      synthetic() ? std::vector<TensorType>() : stored.signature.leaves();
  require(std::ranges::equal(p.feeds, inputs, {}, &program::Port::type), "its inputs");
  require(stored.signature.size() == source_->inputs().size(), "the number of inputs");
  const std::vector<BatchLayout> outputs = outputLayouts(stored.outputs, layout);
  require(stored.outputs <= p.drains.size() && outputs.size() == p.drains.size(), "its outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require(p.drains[i].rule == drainRule(outputs[i]), "when its outputs are returned");
  }
  std::set<std::size_t> returned;
  for (const std::size_t output : stored.result.leaves()) {
    require(output < stored.outputs && returned.insert(output).second, "its result");
  }
  require(returned.size() == stored.outputs, "its result");
}

ModelCore::Entry ModelCore::loaded(StoredProgram stored) {
  std::map<std::string, ir::Initializer> initializers;
  for (const ir::Variable& variable : source_->variables()) {
    initializers.emplace(variable.name, variable.initializer);
  }
  stored.compiled.state = withInitializers(stored.compiled.state, initializers);
  stored.compiled.proven = true;
  const std::optional<std::size_t> loss = stored.compiled.fetchedLoss;
  return {stored.signature,
          stored.layout,
          stored.outputs,
          std::move(stored.result),
          session_->install(std::move(stored.compiled), options_),
          loss};
}

void ModelCore::install(ExecutableFile& file, OtherTarget otherTarget, MadeOf madeOf) {
  const runtime::Turn::Hold turn = enter();
  std::string other = file.content().target.difference(session_->target());
  const std::vector<program::Target> targets = session_->targets();
  for (std::size_t i = 0; i < file.content().programs.size(); ++i) {
    const StoredProgram& offered = file.content().programs[i];
    try {
      requireFits(offered);
      program::requireSound(
          offered.compiled.program, offered.compiled.state, options_.allReplicas());
    } catch (Error& error) {
      raise<FileError>("executable '{}', program {}: {}", file.name(), i, error.message());
    }
    FixedValues fixed = madeOf == MadeOf::SameModel ? requireSameWeights(file, i) : FixedValues();
    StoredProgram stored = file.take(i);
    const compiler::Compiled& compiled = stored.compiled;
    if (other.empty()) {
      other = program::otherChoice(compiled.program, targets);
    }
    if (other.empty() && !session_->mayInstall(compiled.state)) {
      other = "the models of this module have their variables in other places";
    }
    if (!other.empty() && otherTarget == OtherTarget::Refuse) {
      raise<Unsupported>("executable '{}' cannot run here as it is: {}", file.name(), other);
    }
    const bool known = std::ranges::any_of(programs_, [&](const auto& entry) {
      return entry->signature == stored.signature && entry->layout == stored.layout;
    });
    if (known) {
      continue;
    }
    if (other.empty()) {
      programs_.push_back(std::make_unique<Entry>(loaded(std::move(stored))));
      programs_.back()->fixed = std::move(fixed);
      programs_.back()->fixed.writes = writesOfOthers(*programs_.back());
    } else {
      session_->warnOnce(
          fmt::format("executable '{}' is compiled again from its graph: {}", file.name(), other));
      entryFor(stored.signature, stored.layout);
    }
  }
}

namespace {

/// What a program has of an optimizer: its rule and its constants.
optim::OptimizerRecord compiledPart(const optim::Optimizer& optimizer,
                                    std::span<const ir::Variable> weights) {
  optim::OptimizerRecord record = optim::recordOf(optimizer, weights);
  for (std::size_t g = 0; g < record.groups.size(); ++g) {
    for (auto& [attribute, value] : record.groups[g].values) {
      value = optimizer.isConstant(attribute, g) ? value : 0;
    }
  }
  for (auto& [attribute, value] : record.common.values) {
    value = optimizer.isConstant(attribute) ? value : 0;
  }
  return record;
}

/// A traced graph in a key: its constants, which may be all weights, as bytes and not as text.
void writeTracedKey(ByteWriter& key, TracedGraph traced) {
  ByteWriter constants;
  std::uint64_t count = 0;
  const std::vector<ir::OpId> order(traced.graph.order().begin(), traced.graph.order().end());
  for (const ir::OpId id : order) {
    const ir::Op& op = traced.graph.op(id);
    if (op.is(ir::kConstant)) {
      ir::writeTensor(constants, op.attrs.tensor("value"));
      traced.graph.setAttr(id, {"value", HostTensor::full({op.outputs[0].dtype, Shape{}}, 0)});
      ++count;
    }
  }
  key.number(count);
  key.text(constants.bytes());
  writeTraced(key, traced);
}

bool callsTheHost(const ir::Graph& graph) {
  return std::ranges::any_of(graph.order(),
                             [&](ir::OpId id) { return graph.op(id).is(ops::kHostCall); });
}

}  // namespace

std::optional<std::string> ModelCore::cacheKeyOf(const TracedGraph& traced,
                                                 const BatchLayout& layout,
                                                 const Options& options) const {
  if (!cache_ || callsTheHost(traced.graph) || (training() && !optimizer_->settings())) {
    return std::nullopt;
  }
  ByteWriter key;
  key.flag(training());
  key.text(compiledSettings(options));
  writeTracedKey(key, traced);
  writeLayout(key, layout);
  if (training()) {
    writeOptimizer(key, compiledPart(*optimizer_, source_->variables()));
  }
  return key.bytes();
}

void ModelCore::loadStored(const StoredState& stored) {
  const runtime::Turn::Hold turn = enter();
  if (training()) {
    loadTrainingState(stored.state);
    return;
  }
  if (source_->hasConstantWeights()) {  // they are in the programs
    nn::requireStateDict(variables(), stored.state.model);
    for (const auto& [name, value] :
         stored.state.model) {  // for stateDict, and for other variables
      session_->set(name, value);
    }
  } else {
    loadStateDict(stored.state.model);
  }
  setRngState(stored.state.rng);
}

}  // namespace sluice
