#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/ops/ops.h"
#include "sluice/optim/optimizers.h"
#include "sluice/optim/record.h"
#include "sluice/optim/update_context.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kVelocity = "momentum_buffer";

/// `first` in the first update, `later` in all others.
ir::Value chosenByStep(UpdateContext& context, ir::Value first, ir::Value later) {
  ir::GraphBuilder& b = context.b;
  const ir::Value isFirst = ops::equal(b, context.step(), b.scalar(context.scalarType(), 1.0));
  return ops::where(b, isFirst, first, later);
}

}  // namespace

SGD::SGD(const SgdOptions& options)
    : Optimizer({{"lr", options.lr},
                 {"momentum", options.momentum},
                 {"dampening", options.dampening},
                 {"weight_decay", options.weightDecay},
                 {"velocity_scaling", options.velocityScaling}},
                {options.lossScaling, options.maxGradNorm, options.accumType}),
      nesterov_(options.nesterov),
      combined_(options.useCombinedAccum),
      torchCompatible_(options.torchCompatible),
      velocityType_(options.velocityAccumType) {
  requireStateType("velocity_accum_type", velocityType_);
  if (nesterov_ && options.momentum == 0.0) {
    raise<InvalidArgument>("SGD: nesterov needs a momentum above 0");
  }
  if (combined_ && (nesterov_ || torchCompatible_)) {
    raise<InvalidArgument>("SGD: {} needs the separate form, without useCombinedAccum",
                           nesterov_ ? "nesterov" : "torchCompatible");
  }
  if (nesterov_ && torchCompatible_ && options.dampening != 0.0) {
    raise<InvalidArgument>("SGD: PyTorch's nesterov has no dampening, got {}", options.dampening);
  }
  if (!combined_ && options.velocityScaling != 1.0) {
    log::warn("optim", "SGD: velocity_scaling is ignored without useCombinedAccum");
  }
}

Attributes SGD::defaults() const {
  return {{"dampening", 0.0}, {"weight_decay", 0.0}, {"velocity_scaling", 1.0}};
}

std::string SGD::structure() const {
  return fmt::format("nesterov {}, combined {}, torchCompatible {}, velocity {}",
                     nesterov_,
                     combined_,
                     torchCompatible_,
                     velocityType_ ? sluice::name(*velocityType_) : "default");
}

std::optional<Attributes> SGD::settings() const {
  return Attributes{{"nesterov", nesterov_ ? 1 : 0},
                    {"combined", combined_ ? 1 : 0},
                    {"torchCompatible", torchCompatible_ ? 1 : 0},
                    {"velocity", settingOf(velocityType_)}};
}

std::optional<Attributes> SGD::torchFlags() const {
  return combined_ ? std::nullopt
                   : std::optional<Attributes>({{"nesterov", nesterov_ ? 1 : 0}, {"maximize", 0}});
}

SGD::DerivedScalars SGD::derived(const Attributes& attributes) const {
  const double lr = attributes.at("lr");
  const double decay = attributes.at("weight_decay");
  const double scaling = attributes.at("velocity_scaling");
  const double kept = 1.0 - attributes.at("dampening");
  const double step = torchCompatible_ ? lr : lr * kept;
  return {
      {"undampened", {kept, {"dampening"}}},
      {"step_size", {step, {"lr"}}},
      {"shrink", {1.0 - step * decay, {"lr"}}},
      {"gather_scale",
       {kept * scaling / attributes.at("loss_scaling"),
        {"dampening", "velocity_scaling", "loss_scaling"}}},
      {"gradient_scale", {kept * scaling, {"dampening", "velocity_scaling"}}},
      {"decay_scale", {kept * decay * scaling, {"dampening", "weight_decay", "velocity_scaling"}}},
      {"velocity_step", {lr / scaling, {"lr"}}}};
}

bool SGD::gathersInVelocity(std::string_view variable) const {
  return combined_ && !plain(groupOf(variable));
}

StateOptions SGD::combinedState(const ir::Variable& weight) const {
  return {.type = accumulatorType(weight), .role = ir::VariableRole::Accumulator};
}

ir::Value SGD::gathered(ir::GraphBuilder& b,
                        std::string_view variable,
                        ir::Value gradient,
                        const Gathering& gathering) const {
  const ir::Variable weight = *b.graph().findVariable(variable);  // the list of variables grows
  const DType type = computeTypeOf(weight.type.dtype);
  const ir::Value scale = scalar(b, "gather_scale", groupOf(variable), gathering.scalarType, type);
  const ir::Value factor = ops::mul(b, scale, b.scalar(type, gathering.factor));
  const ir::Value scaled = ops::mul(b, ops::cast(b, gradient, type), factor);
  const StateOptions options = combinedState(weight);
  const std::string velocity = declareState(b.graph(), weight, kVelocity, options);
  b.assign(velocity, ops::cast(b, scaled, *options.type), "add");
  b.place.pass = ir::Pass::Update;
  return b.variable(velocity);
}

void SGD::update(UpdateContext& context) const {
  if (combined_ && !leftOut("max_grad_norm")) {
    raise<InvalidArgument>("SGD: max_grad_norm needs the separate form, without useCombinedAccum");
  }
  for (const Gradient& gradient : context.gradients()) {
    const std::size_t group = groupOf(gradient.variable);
    context.placeAnywhere();
    if (plain(group)) {
      updatePlain(context, gradient, group);
    } else if (combined_) {
      updateCombined(context, gradient, group);
    } else {
      updateSeparate(context, gradient, group);
    }
  }
}

void SGD::updatePlain(UpdateContext& context, const Gradient& gradient, std::size_t group) const {
  ir::GraphBuilder& b = context.b;
  const DType type = context.computeType(gradient.variable);
  const ir::Value step = scalar(context, "step_size", group, type);
  const ir::Value shrink = scalar(context, "shrink", group, type);
  context.placeWith(gradient);
  const ir::Value w = context.weight(gradient.variable);
  const ir::Value g = context.gradient(gradient);
  context.assignWeight(gradient.variable,
                       ops::sub(b, ops::mul(b, w, shrink), ops::mul(b, g, step)));
}

void SGD::updateSeparate(UpdateContext& context,
                         const Gradient& gradient,
                         std::size_t group) const {
  ir::GraphBuilder& b = context.b;
  const DType type = context.computeType(gradient.variable);
  const ir::Value lr = scalar(context, "lr", group, type);
  const ir::Value momentum = scalar(context, "momentum", group, type);
  const ir::Value decay = scalar(context, "weight_decay", group, type);
  ir::Value kept = scalar(context, "undampened", group, type);
  if (torchCompatible_) {
    kept = chosenByStep(context, b.scalar(type, 1.0), kept);
  }
  context.placeWith(gradient);
  const ir::Value w = context.weight(gradient.variable);
  const ir::Value d = ops::add(b, context.gradient(gradient), ops::mul(b, w, decay));
  const ir::Value old = context.state(gradient.variable, kVelocity, {.type = velocityType_});
  const ir::Value v = ops::add(b, ops::mul(b, old, momentum), ops::mul(b, d, kept));
  const ir::Value direction = nesterov_ ? ops::add(b, d, ops::mul(b, v, momentum)) : v;
  const ir::Value moved = ops::sub(b, w, ops::mul(b, direction, lr));
  context.assignState(gradient.variable, kVelocity, v);
  context.assignWeight(gradient.variable, moved);
}

void SGD::updateCombined(UpdateContext& context,
                         const Gradient& gradient,
                         std::size_t group) const {
  ir::GraphBuilder& b = context.b;
  const std::string& name = gradient.variable;
  const DType type = context.computeType(name);
  const ir::Value step = scalar(context, "velocity_step", group, type);
  const ir::Value momentum = scalar(context, "momentum", group, type);
  const ir::Value decay = scalar(context, "decay_scale", group, type);
  const ir::Value firstDecay = chosenByStep(context, decay, b.scalar(type, 0.0));
  const ir::Value kept = scalar(context, "gradient_scale", group, type);
  context.placeWith(gradient);
  const ir::Value w = context.weight(name);
  ir::Value v = context.gradient(gradient);
  if (!gradient.inVelocity) {
    const ir::Value old =
        context.state(name, kVelocity, combinedState(*b.graph().findVariable(name)));
    v = ops::add(b, old, ops::mul(b, v, kept));
  }
  v = ops::add(b, v, ops::mul(b, w, firstDecay));
  const ir::Value moved = ops::sub(b, w, ops::mul(b, v, step));
  context.assignState(
      name, kVelocity, ops::add(b, ops::mul(b, v, momentum), ops::mul(b, moved, decay)));
  context.assignWeight(name, moved);
}

}  // namespace sluice::optim
