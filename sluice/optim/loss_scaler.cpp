#include "sluice/optim/loss_scaler.h"

#include <string>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/ops.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kFactor = "optimizer.loss_scale_factor";
constexpr std::string_view kUpdates = "optimizer.loss_scale_updates";
constexpr double kLargestHalf = 65504;
// Where no gradient ever is large, the factor stops here: it and its inverse are float32 numbers.
constexpr double kLargestFactor = 16777216;

void requireShare(std::string_view name, double value) {
  if (!(value >= 0 && value <= 1)) {
    raise<InvalidArgument>(
        "automatic loss scaling: {} is {}, expected a number in [0, 1]", name, value);
  }
}

/// In how many elements |x| is not below the edge; a NaN is not.
ir::Value largeElements(ir::GraphBuilder& b, ir::Value x, double edge) {
  const ir::Value small = ops::less(b, ops::abs(b, x), b.scalar(b.dtype(x), edge));
  return ops::reduceSum(b, ops::cast(b, ops::logicalNot(b, small), DType::F32), {});
}

}  // namespace

void requireValid(const LossScalingOptions& options) {
  requireShare("binEdgeLocation", options.binEdgeLocation);
  requireShare("thresholdUpperCountProportion", options.thresholdUpperCountProportion);
  if (options.updatePeriod < 1) {
    raise<InvalidArgument>("automatic loss scaling: updatePeriod is {}, expected at least 1",
                           options.updatePeriod);
  }
  const bool byName = options.gradientTensorTrackingMethod ==
                      GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors;
  if (byName && options.toTrackTensors.empty()) {
    raise<InvalidArgument>(
        "automatic loss scaling: GradientsOfUserSpecifiedTensors needs tensors to track: name them "
        "in toTrackTensors");
  }
  if (!byName && !options.toTrackTensors.empty()) {
    raise<InvalidArgument>(
        "automatic loss scaling: toTrackTensors names '{}', and only "
        "GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors reads it: choose that, or "
        "name no tensor",
        options.toTrackTensors[0]);
  }
}

LossScaler::LossScaler(const LossScalingOptions& options, DType scalarType)
    : options_(options), scalarType_(scalarType) {
  requireValid(options);
}

ir::Value LossScaler::factor(ir::GraphBuilder& b) const {
  b.graph().addVariable({.name = std::string(kFactor),
                         .type = {scalarType_, Shape{}},
                         .role = ir::VariableRole::OptimizerState,
                         .trainable = false,
                         .initializer = ir::Initializer::constant(1.0)});
  return b.variable(kFactor);
}

void LossScaler::declareState(UpdateContext& context) const {
  factor(context.b);
  if (options_.updatePeriod > 1) {
    context.globalState(kUpdates, 0.0);
  }
}

void LossScaler::count(ir::GraphBuilder& b,
                       std::span<const ir::Value> gradients,
                       std::int32_t microBatches) {
  const ir::AnnotationScope saved(b);
  for (const ir::Value gradient : gradients) {
    elements_ += static_cast<double>(b.shape(gradient).elements()) * microBatches;
    b.place = b.graph().op(gradient.op).place;
    ir::Value number = largeElements(b, gradient, options_.binEdgeLocation * kLargestHalf);
    if (microBatches > 1) {
      const std::string name = fmt::format("optimizer.large_gradients{}", counts_.size());
      b.graph().addVariable({.name = name,
                             .type = b.type(number),
                             .role = ir::VariableRole::Accumulator,
                             .trainable = false,
                             .initializer = ir::Initializer::constant(0)});
      b.assign(name, number, "sum");
      b.place.pass = ir::Pass::Update;
      number = b.variable(name);
    }
    counts_.push_back(number);
  }
}

void LossScaler::update(UpdateContext& context, std::int32_t replicas) const {
  ir::GraphBuilder& b = context.b;
  const ir::AnnotationScope saved(b);
  context.placeAnywhere();
  b.scope = "update/";
  ir::Value large;
  for (const ir::Value count : counts_) {
    const ir::Value part = ops::cast(b, count, scalarType_);
    large = large.valid() ? ops::add(b, large, part) : ops::add(b, part, b.scalar(scalarType_, 0));
  }
  if (replicas > 1) {
    large = ops::replicaSum(b, large);
  }
  const double limit = options_.thresholdUpperCountProportion * elements_ * replicas;
  const ir::Value overflow = ops::logicalNot(b, context.guard());
  const ir::Value tooMany =
      ops::logicalOr(b, overflow, ops::greater(b, large, b.scalar(scalarType_, limit)));
  const ir::Value old = factor(b);
  ir::Value next = ops::mul(
      b, old, ops::where(b, tooMany, b.scalar(scalarType_, 0.5), b.scalar(scalarType_, 2.0)));
  next = ops::clamp(b, next, 1 / kLargestFactor, kLargestFactor);
  if (options_.updatePeriod > 1) {
    const ir::Value updates = context.globalState(kUpdates, 0.0);
    const auto period = static_cast<double>(options_.updatePeriod);
    const ir::Value due = ops::equal(
        b, ops::mod(b, updates, b.scalar(scalarType_, period)), b.scalar(scalarType_, 0.0));
    next = ops::where(b, ops::logicalOr(b, due, overflow), next, old);
    b.assign(kUpdates, ops::add(b, updates, b.scalar(scalarType_, 1.0)));
  }
  b.assign(kFactor, next);
}

}  // namespace sluice::optim
