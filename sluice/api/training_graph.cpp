#include "sluice/api/training_graph.h"

#include <string>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/graph_builder.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/autodiff.h"

namespace sluice {
namespace {

/// The reads of trainable weights, in the order of the graph's variables.
struct WeightRead {
  std::string variable;
  std::vector<ir::Value> reads;
};

std::vector<WeightRead> weightReads(const ir::Graph& graph) {
  std::vector<WeightRead> weights;
  for (const ir::Variable& variable : graph.variables()) {
    if (variable.role != ir::VariableRole::Weight || !variable.trainable) {
      continue;
    }
    WeightRead weight{variable.name, {}};
    for (const ir::OpId id : graph.order()) {
      const ir::Op& op = graph.op(id);
      if (op.is(ir::kVariable) && op.attrs.text("var") == variable.name) {
        weight.reads.push_back(op.out());
      }
    }
    if (!weight.reads.empty()) {
      weights.push_back(std::move(weight));
    }
  }
  return weights;
}

/// How the mean of an accumulator of this type is taken: a sum in float16 may overflow where the
/// mean does not.
MeanReductionStrategy strategyFor(DType accumulator, const TrainingGraphOptions& options) {
  const bool accumulates = options.accumulation > 1;
  return accumulates && accumulator == DType::F16 &&
                 options.meanStrategy == MeanReductionStrategy::Post
             ? MeanReductionStrategy::Running
             : options.meanStrategy;
}

bool runningMean(DType accumulator, const TrainingGraphOptions& options) {
  return options.reduction == Reduction::Mean &&
         strategyFor(accumulator, options) == MeanReductionStrategy::Running;
}

/// Adds the micro-batch's gradient to an accumulator and returns the accumulated value as the
/// update sees it.
ir::Value accumulate(ir::GraphBuilder& b,
                     const std::string& weight,
                     ir::Value gradient,
                     const TrainingGraphOptions& options) {
  const std::string name = weight + ".accumulator";
  b.graph().addVariable({.name = name,
                         .type = b.type(gradient),
                         .role = ir::VariableRole::Accumulator,
                         .trainable = false,
                         .initializer = ir::Initializer::constant(0)});
  const ir::AnnotationScope scope(b);
  b.place = b.graph().op(gradient.op).place;
  b.place.pass = ir::Pass::Backward;
  b.assign(name, gradient, runningMean(b.dtype(gradient), options) ? "mean" : "sum");
  b.place.pass = ir::Pass::Update;
  return b.variable(name);
}

/// Joins the replicas' gradients, once per update, and takes the mean.
ir::Value reduce(ir::GraphBuilder& b, ir::Value gradient, const TrainingGraphOptions& options) {
  const ir::AnnotationScope scope(b);
  b.place = b.graph().op(gradient.op).place;
  b.place.pass = ir::Pass::Update;
  if (options.replicas > 1) {
    gradient = ops::replicaSum(b, gradient);
  }
  if (options.reduction == Reduction::Sum) {
    return gradient;
  }
  double count = 1;
  count *= runningMean(b.dtype(gradient), options) ? 1 : options.accumulation;
  count *= options.meanStrategy == MeanReductionStrategy::PostAndLoss ? 1 : options.replicas;
  return count == 1 ? gradient : ops::mul(b, gradient, b.scalar(b.dtype(gradient), 1.0 / count));
}

}  // namespace

std::vector<WeightGradient> addTraining(ir::Graph& graph,
                                        ir::Value loss,
                                        const optim::Optimizer& optimizer,
                                        const TrainingGraphOptions& options) {
  const std::vector<WeightRead> weights = weightReads(graph);
  if (weights.empty()) {
    raise<InvalidArgument>(
        "model '{}' has no trainable weights: every parameter is frozen or unused", graph.name());
  }
  std::vector<ir::Value> wrt;
  for (const WeightRead& weight : weights) {
    wrt.insert(wrt.end(), weight.reads.begin(), weight.reads.end());
  }
  ir::Value lossGrad;
  if (options.reduction == Reduction::Mean && options.replicas > 1 &&
      options.meanStrategy == MeanReductionStrategy::PostAndLoss) {
    ir::GraphBuilder seed(graph);
    seed.place = graph.op(loss.op).place;
    seed.place.pass = ir::Pass::Backward;
    lossGrad = seed.scalar(graph.type(loss).dtype, 1.0 / options.replicas);
  }
  const std::vector<ir::Value> grads = transforms::differentiate(graph, loss, wrt, lossGrad);
  ir::GraphBuilder b(graph);
  b.scope = "update/";
  std::vector<optim::Gradient> gradients;
  std::vector<WeightGradient> perMicroBatch;
  std::size_t next = 0;
  for (const WeightRead& weight : weights) {
    ir::Value gradient = grads[next++];
    for (std::size_t i = 1; i < weight.reads.size(); ++i) {
      const ir::AnnotationScope scope(b);
      b.place = graph.op(gradient.op).place;
      b.place.pass = ir::Pass::Backward;
      gradient = ops::add(b, gradient, grads[next++]);
    }
    perMicroBatch.push_back({weight.variable, gradient});
    if (options.accumulation > 1) {
      gradient = accumulate(b, weight.variable, gradient, options);
    }
    gradient = reduce(b, gradient, options);
    gradients.push_back({weight.variable, gradient});
  }
  b.place.pass = ir::Pass::Update;
  optim::UpdateContext context(b, std::move(gradients));
  optimizer.expand(context);
  return perMicroBatch;
}

}  // namespace sluice
