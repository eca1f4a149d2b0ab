#include "sluice/compile/training_graph.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/graph_builder.h"
#include "sluice/ops/gradient_statistics.h"
#include "sluice/ops/ops.h"
#include "sluice/optim/loss_scaler.h"
#include "sluice/transforms/autodiff.h"
#include "sluice/transforms/gather_early.h"

namespace sluice::compiler {
namespace {

/// Of trainable weights, in the order of the graph's variables.
std::vector<WeightReads> weightReads(const ir::Graph& graph) {
  std::unordered_map<std::string, std::vector<ir::Value>> reads;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ir::kVariable)) {
      reads[op.attrs.text("var")].push_back(op.out());
    }
  }
  std::vector<WeightReads> weights;
  for (const ir::Variable& variable : graph.variables()) {
    const auto found = reads.find(variable.name);
    if (variable.role == ir::VariableRole::Weight && variable.trainable && found != reads.end()) {
      weights.push_back({variable.name, std::move(found->second)});
    }
  }
  return weights;
}

/// How the mean of an accumulator of this type is taken unless it is said: a sum in float16 may
/// overflow where the mean does not.
MeanReductionStrategy strategyFor(DType accumulator, const TrainingGraphOptions& options) {
  const bool running = options.accumulation > 1 && accumulator == DType::F16;
  return options.meanStrategy.value_or(running ? MeanReductionStrategy::Running
                                               : MeanReductionStrategy::Post);
}

bool runningMean(DType accumulator, const TrainingGraphOptions& options) {
  return options.reduction == GradientReduction::Mean &&
         strategyFor(accumulator, options) == MeanReductionStrategy::Running;
}

bool meanOverReplicas(const TrainingGraphOptions& options) {
  return options.replicaReduction.value_or(options.reduction) == GradientReduction::Mean;
}

/// The backward pass begins with a gradient that is divided by the number of replicas.
bool dividesTheLoss(const TrainingGraphOptions& options) {
  return meanOverReplicas(options) && options.replicas > 1 &&
         options.meanStrategy == MeanReductionStrategy::PostAndLoss;
}

optim::Gathering gatheringOf(const ir::Graph& graph,
                             const std::vector<WeightReads>& weights,
                             const TrainingGraphOptions& options) {
  const bool mean = options.reduction == GradientReduction::Mean;
  optim::Gathering gathering;
  gathering.factor =
      (meanOverReplicas(options) && !dividesTheLoss(options) ? 1.0 : options.replicas) /
      (mean ? static_cast<double>(options.accumulation) : 1.0);
  for (const WeightReads& weight : weights) {
    if (graph.findVariable(weight.variable)->type.dtype == DType::F64) {
      gathering.scalarType = DType::F64;
    }
  }
  return gathering;
}

/// Adds the micro-batch's gradient to an accumulator and returns the accumulated value as the
/// update sees it.
ir::Value accumulate(ir::GraphBuilder& b,
                     const std::string& weight,
                     ir::Value gradient,
                     DType type,
                     const TrainingGraphOptions& options) {
  const std::string name = weight + ".accumulator";
  b.graph().addVariable({.name = name,
                         .type = {type, b.shape(gradient)},
                         .role = ir::VariableRole::Accumulator,
                         .trainable = false,
                         .initializer = ir::Initializer::constant(0)});
  b.assign(name, ops::cast(b, gradient, type), runningMean(type, options) ? "mean" : "sum");
  b.place.pass = ir::Pass::Update;
  return b.variable(name);
}

/// Joins the replicas' gradients, once per update, and takes the mean.
ir::Value reduce(ir::GraphBuilder& b, ir::Value gradient, const TrainingGraphOptions& options) {
  if (options.replicas > 1) {
    gradient = ops::replicaSum(b, gradient);
  }
  double count = 1;
  if (options.reduction == GradientReduction::Mean && !runningMean(b.dtype(gradient), options)) {
    count *= options.accumulation;
  }
  if (meanOverReplicas(options) && !dividesTheLoss(options)) {
    count *= options.replicas;
  }
  return count == 1 ? gradient : ops::mul(b, gradient, b.scalar(b.dtype(gradient), 1.0 / count));
}

/// The gradient of one update from that of a micro-batch.
optim::Gradient gather(ir::GraphBuilder& b,
                       const WeightGradient& weight,
                       const optim::Optimizer& optimizer,
                       const optim::Gathering& gathering,
                       const TrainingGraphOptions& options) {
  const ir::AnnotationScope scope(b);
  b.place = b.graph().op(weight.value.op).place;
  b.place.pass = ir::Pass::Backward;
  ir::Value gradient = weight.value;
  if (options.accumulation > 1 && optimizer.gathersInVelocity(weight.variable)) {
    if (options.statisticsPeriod > 0) {
      raise<Unsupported>(
          "logGradientStatistics: {} adds gradients to its velocity as they come, so that '{}' has "
          "none to log: use the separate form, without useCombinedAccum",
          optimizer.name(),
          weight.variable);
    }
    gradient = optimizer.gathered(b, weight.variable, gradient, gathering);
    b.place.pass = ir::Pass::Update;
    if (options.replicas > 1) {
      const ir::Value share = b.scalar(b.dtype(gradient), 1.0 / options.replicas);
      gradient = ops::replicaSum(b, ops::mul(b, gradient, share));
    }
    return {weight.variable, gradient, true};
  }
  if (options.accumulation > 1) {
    const DType type = optimizer.accumulatorType(*b.graph().findVariable(weight.variable));
    gradient = accumulate(b, weight.variable, gradient, type, options);
  }
  b.place.pass = ir::Pass::Update;
  gradient = reduce(b, gradient, options);
  if (options.statisticsPeriod > 0) {
    ops::gradientStatistics(b,
                            gradient,
                            {.weight = weight.variable,
                             .period = options.statisticsPeriod,
                             .microBatches = options.accumulation,
                             .replicas = options.replicas});
  }
  return {weight.variable, gradient};
}

ir::Value product(ir::GraphBuilder& b, ir::Value x, ir::Value y) {
  return !x.valid() ? y : !y.valid() ? x : ops::mul(b, x, y);
}

/// What the backward pass begins with: the loss scaling times the scaler's factor, over the
/// replicas where asked. No value: 1.
ir::Value lossGradient(ir::Graph& graph,
                       ir::Value loss,
                       const optim::Optimizer& optimizer,
                       DType scalarType,
                       const optim::LossScaler* scaler,
                       const TrainingGraphOptions& options) {
  const DType type = graph.type(loss).dtype;
  ir::GraphBuilder b(graph);
  b.place = graph.op(loss.op).place;
  b.place.pass = ir::Pass::Backward;
  ir::Value gradient = optimizer.lossGradient(b, type, scalarType);
  if (scaler != nullptr) {
    gradient = product(b, gradient, ops::cast(b, scaler->factor(b), type));
  }
  return dividesTheLoss(options) ? product(b, gradient, b.scalar(type, 1.0 / options.replicas))
                                 : gradient;
}

/// Nothing unless it was asked for.
std::optional<optim::LossScaler> makeScaler(const std::vector<WeightReads>& weights,
                                            const optim::Optimizer& optimizer,
                                            DType scalarType,
                                            const TrainingGraphOptions& options) {
  if (!options.automaticLossScaling) {
    return std::nullopt;
  }
  for (const WeightReads& weight : weights) {
    if (optimizer.gathersInVelocity(weight.variable)) {
      raise<Unsupported>(
          "automatic loss scaling leaves out updates that overflow, and {} has added the gradients "
          "to its velocity by then: use the separate form, without useCombinedAccum",
          optimizer.name());
    }
  }
  return optim::LossScaler(*options.automaticLossScaling, scalarType);
}

}  // namespace

Differentiated differentiateLoss(ir::Graph& graph,
                                 ir::Value loss,
                                 const optim::Optimizer& optimizer,
                                 const TrainingGraphOptions& options) {
  Differentiated made{.weights = weightReads(graph), .gradients = {}};
  if (made.weights.empty()) {
    raise<InvalidArgument>(
        "model '{}' has no trainable weights: every parameter is frozen or unused", graph.name());
  }
  std::vector<ir::Value> wrt;
  for (const WeightReads& weight : made.weights) {
    wrt.insert(wrt.end(), weight.reads.begin(), weight.reads.end());
  }
  made.gathering = gatheringOf(graph, made.weights, options);
  const DType scalarType = made.gathering.scalarType;
  made.scaler = makeScaler(made.weights, optimizer, scalarType, options);
  const ir::Value lossGrad = lossGradient(
      graph, loss, optimizer, scalarType, made.scaler ? &*made.scaler : nullptr, options);
  made.first = graph.order().size();
  made.gradients = transforms::differentiate(graph, loss, wrt, lossGrad);
  made.end = graph.order().size();
  return made;
}

void addUpdate(ir::Graph& graph,
               Differentiated& made,
               const optim::Optimizer& optimizer,
               const TrainingGraphOptions& options) {
  ir::GraphBuilder b(graph);
  b.scope = "update/";
  if (made.scaler) {
    made.scaler->count(b, made.first, options.accumulation);
  }
  std::vector<optim::Gradient> gradients;
  std::size_t next = 0;
  for (const WeightReads& weight : made.weights) {
    ir::Value gradient = made.gradients[next++];
    for (std::size_t i = 1; i < weight.reads.size(); ++i) {
      const ir::AnnotationScope scope(b);
      b.place = graph.op(gradient.op).place;
      b.place.pass = ir::Pass::Backward;
      gradient = ops::add(b, gradient, made.gradients[next++]);
    }
    made.perMicroBatch.push_back({weight.variable, gradient});
    gradients.push_back(gather(b, made.perMicroBatch.back(), optimizer, made.gathering, options));
  }
  b.place.pass = ir::Pass::Update;
  optim::UpdateContext context(b, std::move(gradients));
  context.setSharding(options.sharding);
  context.setStochasticRounding(options.stochasticRounding);
  if (made.scaler) {
    context.setLossFactor(made.scaler->factor(b));
  }
  optimizer.expand(context);
  if (made.scaler) {
    made.scaler->update(context, options.replicas);
  }
}

std::vector<WeightGradient> addTraining(ir::Graph& graph,
                                        ir::Value loss,
                                        const optim::Optimizer& optimizer,
                                        const TrainingGraphOptions& options) {
  Differentiated made = differentiateLoss(graph, loss, optimizer, options);
  addUpdate(graph, made, optimizer, options);
  transforms::gatherEarly(graph, made.end);
  return std::move(made.perMicroBatch);
}

}  // namespace sluice::compiler
