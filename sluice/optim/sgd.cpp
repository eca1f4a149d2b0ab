#include "sluice/optim/sgd.h"

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kVelocity = "momentum_buffer";

}  // namespace

SGD::SGD(const SgdOptions& options) {
  addGroup({}, options);
}

std::size_t SGD::addGroup(ParameterFilter filter, const SgdOptions& options) {
  if (options.nesterov && options.momentum == 0.0) {
    raise<InvalidArgument>("SGD: nesterov needs a momentum above 0");
  }
  Hypers hypers = {
      {"lr", options.lr}, {"dampening", options.dampening}, {"weight_decay", options.weightDecay}};
  if (options.momentum != 0.0) {
    hypers.emplace("momentum", options.momentum);
  }
  const std::size_t group = Optimizer::addGroup(std::move(filter), std::move(hypers));
  rules_.push_back(options.nesterov          ? Rule::Nesterov
                   : options.momentum != 0.0 ? Rule::Momentum
                                             : Rule::Plain);
  return group;
}

SGD::Hypers SGD::derived(const Hypers& hypers) const {
  const double undampened = 1.0 - hypers.at("dampening");
  const double step = hypers.at("lr") * undampened;
  return {{"undampened", undampened},
          {"step_size", step},
          {"shrink", 1.0 - step * hypers.at("weight_decay")}};
}

void SGD::update(UpdateContext& context) const {
  for (const Gradient& gradient : context.gradients()) {
    const std::size_t group = groupOf(gradient.variable);
    if (rules_[group] == Rule::Plain) {
      updatePlain(context, gradient, group);
    } else {
      updateMomentum(context, gradient, group);
    }
  }
}

void SGD::updatePlain(UpdateContext& context, const Gradient& gradient, std::size_t group) const {
  ir::GraphBuilder& b = context.b;
  const DType type = context.computeType(gradient.variable);
  const ir::Value step = hyper(context, "step_size", group, type);
  const ir::Value shrink = hyper(context, "shrink", group, type);
  context.placeWith(gradient);
  const ir::Value w = context.weight(gradient.variable);
  const ir::Value g = context.gradient(gradient);
  context.assignWeight(gradient.variable,
                       ops::sub(b, ops::mul(b, w, shrink), ops::mul(b, g, step)));
}

void SGD::updateMomentum(UpdateContext& context,
                         const Gradient& gradient,
                         std::size_t group) const {
  ir::GraphBuilder& b = context.b;
  const DType type = context.computeType(gradient.variable);
  const ir::Value lr = hyper(context, "lr", group, type);
  const ir::Value momentum = hyper(context, "momentum", group, type);
  const ir::Value decay = hyper(context, "weight_decay", group, type);
  const ir::Value kept = hyper(context, "undampened", group, type);
  context.placeWith(gradient);
  const ir::Value w = context.weight(gradient.variable);
  const ir::Value d = ops::add(b, context.gradient(gradient), ops::mul(b, w, decay));
  const ir::Value v = ops::add(
      b, ops::mul(b, context.state(gradient.variable, kVelocity), momentum), ops::mul(b, d, kept));
  const ir::Value direction =
      rules_[group] == Rule::Nesterov ? ops::add(b, d, ops::mul(b, v, momentum)) : v;
  context.assignState(gradient.variable, kVelocity, v);
  context.assignWeight(gradient.variable, ops::sub(b, w, ops::mul(b, direction, lr)));
}

}  // namespace sluice::optim
