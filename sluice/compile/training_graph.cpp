#include "sluice/compile/training_graph.h"

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/compile/tracked_gradients.h"
#include "sluice/ir/graph.h"
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
/// update sees it. If replicas share the accumulator, each has a part of it, and the gradients
/// of all replicas are added in every micro-batch.
ir::Value accumulate(ir::GraphBuilder& b,
                     const std::string& weight,
                     ir::Value gradient,
                     DType type,
                     const TrainingGraphOptions& options) {
  const Shape whole = b.shape(gradient);
  const std::int32_t replicas = options.accumulatorSharding.replicas;
  const bool shared = options.accumulatorSharding.covers(whole);
  ir::Variable accumulator{.name = weight + ".accumulator",
                           .type = {type, whole},
                           .role = ir::VariableRole::Accumulator,
                           .trainable = false,
                           .initializer = ir::Initializer::constant(0)};
  ir::Value added = ops::cast(b, gradient, type);
  if (shared) {
    accumulator.split = {whole, replicas};
    accumulator.type.shape = Shape{ir::partOf(whole.elements(), replicas)};
    added = ops::replicaSumScatter(b, added, replicas);
  }
  b.graph().addVariable(accumulator);
  b.assign(accumulator.name, added, runningMean(type, options) ? "mean" : "sum");
  b.place.pass = ir::Pass::Update;
  const ir::Value kept = b.variable(accumulator.name);
  return shared ? ops::replicaGather(b, kept, whole) : kept;
}

/// Joins the replicas' gradients once per update, unless they are already joined, and takes the
/// mean.
ir::Value reduce(ir::GraphBuilder& b, ir::Value gradient, const TrainingGraphOptions& options) {
  const bool joined =
      options.accumulation > 1 && options.accumulatorSharding.covers(b.shape(gradient));
  if (options.replicas > 1 && !joined) {
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
  // Only at its end is it known whether an update is left out, and nothing could be taken out of a
  // velocity again.
  const bool inVelocity =
      !options.automaticLossScaling && optimizer.gathersInVelocity(weight.variable);
  if (options.accumulation > 1 && inVelocity) {
    if (options.accumulatorSharding.covers(b.shape(gradient))) {
      raise<Unsupported>(
          "useReplicatedTensorSharding of accumulators: {} accumulates '{}' in its velocity, which "
          "every replica keeps whole: use the separate form, without useCombinedAccum, or leave "
          "accumulators whole",
          optimizer.name(),
          weight.variable);
    }
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

}  // namespace

Differentiated differentiateLoss(ir::Graph& graph,
                                 ir::Value loss,
                                 const optim::Optimizer& optimizer,
                                 const TrainingGraphOptions& options,
                                 std::span<const NamedTensor> tracked) {
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
  if (options.automaticLossScaling) {
    made.scaler.emplace(*options.automaticLossScaling, scalarType);
  }
  const ir::Value lossGrad = lossGradient(
      graph, loss, optimizer, scalarType, made.scaler ? &*made.scaler : nullptr, options);
  made.first = graph.order().size();
  std::vector<ir::Value> inner;
  for (const NamedTensor& tensor : tracked) {
    inner.push_back(tensor.value);
  }
  transforms::Gradients gradients =
      transforms::differentiateAlong(graph, loss, wrt, lossGrad, inner);
  if (!gradients.reached) {
    raise<InvalidArgument>(
        "the loss '{}' of model '{}' depends on none of its {} trainable weights, so training "
        "would "
        "change nothing; return the loss that is to be minimised, and check that no detach or "
        "integer op lies between it and the weights",
        graph.op(loss.op).name,
        graph.name(),
        made.weights.size());
  }
  made.gradients = std::move(gradients.wrt);
  made.end = graph.order().size();
  if (made.scaler) {
    made.tracked = tracked.empty() ? trackedGradients(
                                         graph,
                                         {made.first, made.end, lossGrad, made.gradients},
                                         options.automaticLossScaling->gradientTensorTrackingMethod)
                                   : trackedGradients(graph, tracked, gradients.inner);
  }
  return made;
}

void addUpdate(ir::Graph& graph,
               Differentiated& made,
               const optim::Optimizer& optimizer,
               const TrainingGraphOptions& options) {
  ir::GraphBuilder b(graph);
  b.scope = "update/";
  if (made.scaler) {
    made.scaler->count(b, made.tracked, options.accumulation);
  }
  std::vector<optim::Gradient> gradients;
  std::size_t next = 0;
  for (const WeightReads& weight : made.weights) {
    const std::span<const ir::Value> parts(made.gradients.data() + next, weight.reads.size());
    next += parts.size();
    ir::Value gradient = parts.back();
    for (std::size_t i = parts.size() - 1; i-- > 0;) {  // the last read first, as in autodiff (R7)
      const ir::AnnotationScope scope(b);
      b.place = graph.op(parts[i].op).place;
      b.place.pass = ir::Pass::Backward;
      gradient = ops::add(b, gradient, parts[i]);
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
