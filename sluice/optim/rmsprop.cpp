#include <fmt/format.h>

#include "sluice/ops/ops.h"
#include "sluice/optim/optimizers.h"
#include "sluice/optim/record.h"
#include "sluice/optim/update_context.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kSquare = "square_avg";
constexpr std::string_view kMean = "grad_avg";
constexpr std::string_view kMomentumBuffer = "momentum_buffer";

}  // namespace

RMSprop::RMSprop(const RmsPropOptions& options)
    : Optimizer({{"lr", options.lr},
                 {"alpha", options.alpha},
                 {"eps", options.eps},
                 {"weight_decay", options.weightDecay},
                 {"momentum", options.momentum}},
                {options.lossScaling, kNoGradNorm, options.accumType}),
      centered_(options.centered),
      tfVariant_(options.useTfVariant),
      firstType_(options.firstOrderMomentumAccumType),
      secondType_(options.secondOrderMomentumAccumType) {
  requireStateType("first_order_momentum_accum_type", firstType_);
  requireStateType("second_order_momentum_accum_type", secondType_);
}

Attributes RMSprop::defaults() const {
  return {{"eps", 1e-8}, {"weight_decay", 0.0}};
}

std::string RMSprop::structure() const {
  const auto text = [](std::optional<DType> type) {
    return type ? sluice::name(*type) : std::string_view("default");
  };
  return fmt::format("centered {}, TensorFlow's {}, moments {} and {}",
                     centered_,
                     tfVariant_,
                     text(firstType_),
                     text(secondType_));
}

std::optional<Attributes> RMSprop::settings() const {
  return Attributes{{"centered", centered_ ? 1 : 0},
                    {"tfVariant", tfVariant_ ? 1 : 0},
                    {"first", settingOf(firstType_)},
                    {"second", settingOf(secondType_)}};
}

std::optional<Attributes> RMSprop::torchFlags() const {
  return tfVariant_ ? std::nullopt
                    : std::optional<Attributes>({{"centered", centered_ ? 1 : 0}, {"maximize", 0}});
}

RMSprop::DerivedScalars RMSprop::derived(const Attributes& attributes) const {
  return {{"one_minus_alpha", {1.0 - attributes.at("alpha"), {"alpha"}}}};
}

void RMSprop::update(UpdateContext& context) const {
  for (const Gradient& gradient : context.gradients()) {
    updateWeight(context, gradient, groupOf(gradient.variable));
  }
}

void RMSprop::updateWeight(UpdateContext& context,
                           const Gradient& gradient,
                           std::size_t group) const {
  ir::GraphBuilder& b = context.b;
  const std::string& name = gradient.variable;
  const DType type = context.computeType(name);
  context.placeAnywhere();
  const auto get = [&](std::string_view attribute) {
    return scalar(context, attribute, group, type);
  };
  const ir::Value lr = get("lr");
  const ir::Value alpha = get("alpha");
  const ir::Value oneMinusAlpha = get("one_minus_alpha");
  const ir::Value eps = get("eps");
  const ir::Value decay = get("weight_decay");
  const bool hasMomentum = !leftOut("momentum", group);
  const ir::Value momentum = hasMomentum ? get("momentum") : ir::Value();
  context.placeWith(gradient);
  const ir::Value w = context.weight(name);
  const ir::Value s = ops::add(b, context.gradient(gradient), ops::mul(b, w, decay));
  const auto average = [&](ir::Value old, ir::Value value) {
    return ops::add(b, ops::mul(b, old, alpha), ops::mul(b, value, oneMinusAlpha));
  };
  const StateOptions ofSquare{.type = secondType_, .initial = tfVariant_ ? 1.0 : 0.0};
  const ir::Value squares = average(context.state(name, kSquare, ofSquare), ops::square(b, s));
  const ir::Value mean =
      centered_ ? average(context.state(name, kMean, {.type = firstType_}), s) : ir::Value();
  const ir::Value d = centered_ ? ops::sub(b, squares, ops::square(b, mean)) : squares;
  const ir::Value root =
      tfVariant_ ? ops::sqrt(b, ops::add(b, d, eps)) : ops::add(b, ops::sqrt(b, d), eps);
  ir::Value step = ops::div(b, s, root);
  if (tfVariant_) {
    step = ops::mul(b, step, lr);
  }
  if (hasMomentum) {
    const ir::Value old = context.state(name, kMomentumBuffer, {.type = firstType_});
    step = ops::add(b, ops::mul(b, old, momentum), step);
  }
  const ir::Value moved = ops::sub(b, w, tfVariant_ ? step : ops::mul(b, step, lr));
  // Behind all ops, so that these fuse.
  context.assignState(name, kSquare, squares);
  if (centered_) {
    context.assignState(name, kMean, mean);
  }
  if (hasMomentum) {
    context.assignState(name, kMomentumBuffer, step);
  }
  context.assignWeight(name, moved);
}

}  // namespace sluice::optim
