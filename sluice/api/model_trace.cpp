// What a model asks the compiler for: its traced graph, how it is trained, its anchors.
#include <thread>

#include "sluice/api/compile_plan.h"
#include "sluice/api/model_core.h"
#include "sluice/base/error.h"
#include "sluice/onnx/files.h"

namespace sluice {

program::DrainRule ModelCore::drainRule(const BatchLayout& layout) {
  const bool everyN = layout.outputMode == OutputMode::EveryN;
  return {.every = everyN ? static_cast<std::int32_t>(layout.outputPeriod) : 1,
          .finalOnly = layout.outputMode == OutputMode::Final};
}

std::string ModelCore::getModelProto(onnx::Exact exact) const {
  const runtime::Turn::Hold turn = enter();
  if (programs_.empty()) {
    raise<InvalidArgument>("getModelProto: compile the model first, so that its shapes are known");
  }
  const TracedGraph traced = trace(programs_.back()->signature, false);
  onnx::ExportOptions options{.exact = exact};
  for (const ir::Variable& variable : traced.graph.variables()) {
    if (session_->contains(variable.name)) {
      options.values.insert_or_assign(variable.name, session_->read(variable.name));
    }
  }
  return onnx::exportModelBytes(traced.graph, options);
}

TracedGraph ModelCore::trace(const Signature& signature, bool training) const {
  const std::span<const runtime::Turn::Mark> outer = runtime::Turn::Work::current();
  std::vector<runtime::Turn::Mark> marks(outer.begin(), outer.end());
  marks.push_back({turn_.get(), 0, std::this_thread::get_id()});
  const runtime::Turn::Work work(marks);
  return source_->trace({signature, training, options_});
}

bool ModelCore::fixesWeights() const {
  return options_.compile().constantWeights && !source_->hasConstantWeights();
}

TracedGraph ModelCore::graphFor(const Signature& signature, FixedValues* fixed) const {
  if (fixed != nullptr && hasConstantWeights()) {
    alive().shareConstants(source_->variables());
  }
  TracedGraph traced = trace(signature, training());
  if (!fixesWeights()) {
    if (fixed != nullptr && source_->hasConstantWeights()) {
      fixed->ofSource = hashOfConstants(traced.graph);
    }
    return traced;
  }
  // The session holds the values of compiled programs, so that it sees when they change.
  const auto valueOf = [&](const ir::Variable& variable) {
    if (fixed != nullptr && !alive().contains(variable.name)) {
      alive().set(variable.name, ir::initialValue(variable, alive().seed()));
    }
    return ModelCore::valueOf(variable);
  };
  std::vector<std::string> variables = fixVariables(traced, valueOf, options_);
  if (fixed != nullptr) {
    *fixed = {std::move(variables)};
    fixed->hash = hashOf(fixed->variables, alive());
  }
  return traced;
}

/// How often something else than the entry's own program may have changed the state. The program
/// itself writes none of its constants.
std::uint64_t ModelCore::writesOfOthers(const Entry& entry) const {
  return alive().writes() - entry.compiled.program->writingSteps();
}

bool ModelCore::isOutdated(Entry& entry) const {
  if (entry.compilesAgain) {
    return true;
  }
  FixedValues& fixed = entry.fixed;
  const std::uint64_t writes = writesOfOthers(entry);
  if (fixed.variables.empty() || fixed.writes == writes) {
    return false;
  }
  if (hashOf(fixed.variables, alive()) != fixed.hash) {
    return true;
  }
  fixed.writes = writes;
  return false;
}

compiler::CompileRequest ModelCore::requestOf(TracedGraph& traced,
                                              const BatchLayout& layout,
                                              const Options& options) const {
  std::vector<program::DrainRule> rules;
  for (const BatchLayout& each : outputLayouts(traced.outputs, layout)) {
    rules.push_back(drainRule(each));
  }
  compiler::CompileRequest request = compileRequest(
      std::move(traced.graph), microBatchesPerRound(layout), std::move(rules), options);
  if (traced.cutIntoStages || cutsAutomatically(options)) {
    request.partition = partitionOf(training(), options);
  }
  if (synthetic()) {
    request.synthetic = syntheticInputs(options.batch().syntheticData);
  }
  if (training()) {
    request.training = {.optimizer = optimizer_.get(),
                        .loss = traced.loss,
                        .options = trainingGraphOptions(layout.gradientAccumulation, options)};
  }
  request.outputs = traced.outputs;
  request.tensors = std::move(traced.tensors);
  for (const Anchor& anchor : options.batch().anchors) {
    request.anchors.push_back({anchor.shortName, anchor.longName});
  }
  return request;
}

}  // namespace sluice
