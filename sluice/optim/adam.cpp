#include "sluice/optim/adam.h"

#include <cmath>
#include <map>
#include <utility>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kFirst = "exp_avg";
constexpr std::string_view kSecond = "exp_avg_sq";
constexpr std::string_view kStep = "optimizer.step";

/// 1 / (1 - beta^t), by way of the logarithm: 1 - beta loses digits when beta is near 1.
ir::Value correction(ir::GraphBuilder& b, ir::Value step, ir::Value logBeta) {
  return ops::reciprocal(b, ops::neg(b, ops::expm1(b, ops::mul(b, step, logBeta))));
}

}  // namespace

struct AdamFamily::Scalars {
  ir::Value lr;
  ir::Value beta1;
  ir::Value oneMinusBeta1;
  ir::Value beta2;
  ir::Value oneMinusBeta2;
  ir::Value eps;
  ir::Value decay;
  ir::Value correction1;  // none without bias correction
  ir::Value correction2;
};

AdamFamily::AdamFamily(Decay decay, const AdamOptions& options) : decay_(decay) {
  addGroup({}, options);
}

std::size_t AdamFamily::addGroup(ParameterFilter filter, const AdamOptions& options) {
  const double decay = options.weightDecay.value_or(decay_ == Decay::Step ? 0.01 : 0.0);
  const std::size_t group = Optimizer::addGroup(std::move(filter),
                                                {{"lr", options.lr},
                                                 {"beta1", options.beta1},
                                                 {"beta2", options.beta2},
                                                 {"eps", options.eps},
                                                 {"weight_decay", decay}});
  rules_.push_back(options);
  return group;
}

AdamFamily::Hypers AdamFamily::derived(const Hypers& hypers) const {
  return {{"one_minus_beta1", 1.0 - hypers.at("beta1")},
          {"one_minus_beta2", 1.0 - hypers.at("beta2")},
          {"log_beta1", std::log(hypers.at("beta1"))},
          {"log_beta2", std::log(hypers.at("beta2"))}};
}

void AdamFamily::update(UpdateContext& context) const {
  ir::GraphBuilder& b = context.b;
  const ir::Placement unplaced = b.place;
  const ir::Value step =
      ops::add(b, context.globalState(kStep, 0.0), b.scalar(context.scalarType(), 1.0));
  b.assign(kStep, step);
  std::map<std::pair<std::size_t, DType>, Scalars> scalars;
  for (const Gradient& gradient : context.gradients()) {
    const std::size_t group = groupOf(gradient.variable);
    const DType type = context.computeType(gradient.variable);
    const std::pair key(group, type);
    if (!scalars.contains(key)) {
      b.place = unplaced;
      scalars.emplace(key, scalarsOf(context, step, group, type));
    }
    context.placeWith(gradient);
    updateWeight(context, gradient, scalars.at(key));
  }
}

AdamFamily::Scalars AdamFamily::scalarsOf(UpdateContext& context,
                                          ir::Value step,
                                          std::size_t group,
                                          DType type) const {
  const auto get = [&](std::string_view name) { return hyper(context, name, group, type); };
  Scalars s{.lr = get("lr"),
            .beta1 = get("beta1"),
            .oneMinusBeta1 = get("one_minus_beta1"),
            .beta2 = get("beta2"),
            .oneMinusBeta2 = get("one_minus_beta2"),
            .eps = get("eps"),
            .decay = get("weight_decay"),
            .correction1 = {},
            .correction2 = {}};
  if (rules_[group].biasCorrection) {
    const ir::Value t = ops::cast(context.b, step, type);
    s.correction1 = correction(context.b, t, get("log_beta1"));
    s.correction2 = correction(context.b, t, get("log_beta2"));
  }
  return s;
}

void AdamFamily::updateWeight(UpdateContext& context,
                              const Gradient& gradient,
                              const Scalars& s) const {
  ir::GraphBuilder& b = context.b;
  const std::string& name = gradient.variable;
  const ir::Value w = context.weight(name);
  ir::Value g = context.gradient(gradient);
  if (decay_ == Decay::Gradient) {
    g = ops::add(b, g, ops::mul(b, w, s.decay));
  }
  const ir::Value m = ops::add(
      b, ops::mul(b, context.state(name, kFirst), s.beta1), ops::mul(b, g, s.oneMinusBeta1));
  const ir::Value v = ops::add(b,
                               ops::mul(b, context.state(name, kSecond), s.beta2),
                               ops::mul(b, ops::square(b, g), s.oneMinusBeta2));
  const bool corrected = s.correction1.valid();
  const ir::Value mean = corrected ? ops::mul(b, m, s.correction1) : m;
  const ir::Value variance = corrected ? ops::mul(b, v, s.correction2) : v;
  ir::Value x = ops::div(b, mean, ops::add(b, ops::sqrt(b, variance), s.eps));
  if (decay_ == Decay::Step) {
    x = ops::add(b, x, ops::mul(b, w, s.decay));
  }
  context.assignState(name, kFirst, m);
  context.assignState(name, kSecond, v);
  context.assignWeight(name, ops::sub(b, w, ops::mul(b, x, s.lr)));
}

}  // namespace sluice::optim
