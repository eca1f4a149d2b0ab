// The graph of a model's step: forward from its source, backward and update, anchors.
#include <algorithm>

#include "sluice/api/compile_plan.h"
#include "sluice/api/model.h"
#include "sluice/api/training_graph.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/nn/block.h"
#include "sluice/onnx/export.h"
#include "sluice/transforms/decompose.h"

namespace sluice {

namespace {

/// Loud where another output might have been meant.
void logMinimised(const ir::Graph& graph, std::size_t minimised) {
  const ir::Output& loss = graph.outputs()[minimised];
  const ir::Op& made = graph.op(loss.value.op);
  const bool doubtful = std::ranges::any_of(graph.outputs(), [&](const ir::Output& output) {
    const TensorType& type = graph.type(output.value);
    return output.value != loss.value && isFloat(type.dtype) && type.shape.rank() == 0;
  });
  constexpr std::string_view kText = "'{}' minimises '{}', which {} '{}' makes";
  if (doubtful) {
    log::info("model", kText, graph.name(), loss.name, made.def->name, made.name);
  } else {
    log::debug("model", kText, graph.name(), loss.name, made.def->name, made.name);
  }
}

}  // namespace

void Model::addBackward(TracedGraph& traced, const BatchLayout& layout) const {
  ir::Graph& graph = traced.graph;
  logMinimised(graph, traced.loss);
  // Composites are differentiated through their parts; the loss keeps its place among the outputs.
  transforms::decompose(graph, [](const ir::Op&) { return false; });
  const std::vector<WeightGradient> gradients =
      addTraining(graph,
                  graph.outputs()[traced.loss].value,
                  *optimizer_,
                  {.accumulation = static_cast<std::int32_t>(layout.gradientAccumulation),
                   .reduction = options_.training.accumulationReduction(),
                   .replicaReduction = options_.training.replicationReductionType(),
                   .meanStrategy = options_.training.givenMeanReductionStrategy(),
                   .replicas = options_.replicationFactor(),
                   .automaticLossScaling = options_.training.automaticLossScaling(),
                   .sharding = stateShardingOf(options_),
                   .statisticsPeriod = options_.training.gradientStatisticsPeriod(),
                   .stochasticRounding = options_.precision.stochasticRounding()});
  traced.tensors = namedTensors(graph, ir::Pass::Backward);
  for (const WeightGradient& gradient : gradients) {
    traced.tensors.push_back({"Gradient___" + gradient.variable, gradient.value});
  }
}

/// Adds those anchors as outputs that name one of the tensors, and keeps the names.
void Model::addAnchors(TracedGraph& traced) {
  for (const NamedTensor& tensor : traced.tensors) {
    tensorNames_.push_back(tensor.name);
  }
  for (const Anchor& anchor : options_.batch().anchors) {
    const auto found = std::ranges::find(traced.tensors, anchor.longName, &NamedTensor::name);
    if (found != traced.tensors.end()) {
      traced.graph.addOutput("anchor/" + anchor.shortName, found->value);
    }
  }
}

std::string Model::getModelProto() const {
  const runtime::Turn::Hold turn = enter();
  if (programs_.empty()) {
    raise<InvalidArgument>("getModelProto: compile the model first, so that its shapes are known");
  }
  const TracedGraph traced = source_->trace({programs_.back()->signature, false, options_});
  onnx::ExportOptions options;
  for (const ir::Variable& variable : traced.graph.variables()) {
    if (session_->contains(variable.name)) {
      options.values.insert_or_assign(variable.name, session_->read(variable.name));
    }
  }
  return onnx::exportModelBytes(traced.graph, options);
}

TracedGraph Model::trace(const Signature& signature, const BatchLayout& layout) {
  TracedGraph traced = source_->trace({signature, training(), options_});
  ir::Graph& graph = traced.graph;
  const std::size_t own = graph.outputs().size();
  tensorNames_.clear();
  addAnchors(traced);
  nn::requireLiveBlocks(graph);
  if (synthetic()) {
    makeInputsSynthetic(graph, options_.batch().syntheticData);
  }
  if (training()) {
    addBackward(traced, layout);
    addAnchors(traced);
  }
  // The model's own outputs, then the anchors in the order of the options.
  const std::vector<ir::Output> all(graph.outputs().begin(), graph.outputs().end());
  std::vector<ir::Output> outputs(all.begin(),
                                  all.begin() + static_cast<std::ptrdiff_t>(traced.outputs));
  for (const Anchor& anchor : options_.batch().anchors) {
    const auto found = std::find_if(
        all.begin() + static_cast<std::ptrdiff_t>(own), all.end(), [&](const ir::Output& output) {
          return output.name == "anchor/" + anchor.shortName;
        });
    if (found == all.end()) {
      raise<InvalidArgument>(
          "anchorTensor '{}': the model has no tensor '{}'; Model::getTensorNames() lists them",
          anchor.shortName,
          anchor.longName);
    }
    outputs.push_back(*found);
  }
  const auto loss = std::ranges::find(outputs, all[traced.loss].value, &ir::Output::value);
  if (training() && loss != outputs.end()) {
    traced.fetchedLoss = static_cast<std::size_t>(loss - outputs.begin());
  }
  graph.setOutputs(std::move(outputs));
  return traced;
}

}  // namespace sluice
