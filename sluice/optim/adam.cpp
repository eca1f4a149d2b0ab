#include <cmath>
#include <map>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/ops/ops.h"
#include "sluice/optim/optimizers.h"
#include "sluice/optim/record.h"
#include "sluice/optim/update_context.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kFirst = "exp_avg";
constexpr std::string_view kSecond = "exp_avg_sq";

/// 1 / (1 - beta^t), by way of the logarithm: 1 - beta loses digits when beta is near 1.
ir::Value correction(ir::GraphBuilder& b, ir::Value step, ir::Value logBeta) {
  return ops::reciprocal(b, ops::neg(b, ops::expm1(b, ops::mul(b, step, logBeta))));
}

ir::Value norm(ir::GraphBuilder& b, ir::Value x) {
  return ops::sqrt(b, ops::reduceSum(b, ops::square(b, x), {}));
}

/// min(|w|, maximum) / |x|, or 1 where one of them is 0.
ir::Value trustRatio(ir::GraphBuilder& b, ir::Value w, ir::Value x, ir::Value maximum) {
  const DType type = b.dtype(w);
  const ir::Value zero = b.scalar(type, 0.0);
  const ir::Value weightNorm = ops::minimum(b, norm(b, w), maximum);
  const ir::Value stepNorm = norm(b, x);
  const ir::Value both =
      ops::logicalAnd(b, ops::greater(b, weightNorm, zero), ops::greater(b, stepNorm, zero));
  return ops::where(b, both, ops::div(b, weightNorm, stepNorm), b.scalar(type, 1.0));
}

AdamOptions asAdam(const LambOptions& options) {
  return {.lr = options.lr,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .weightDecay = options.weightDecay,
          .biasCorrection = options.biasCorrection,
          .lossScaling = options.lossScaling,
          .accumType = options.accumType,
          .firstOrderMomentumAccumType = options.firstOrderMomentumAccumType,
          .secondOrderMomentumAccumType = options.secondOrderMomentumAccumType};
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
  ir::Value maxWeightNorm;  // only of LAMB
  ir::Value correction1;    // none without bias correction
  ir::Value correction2;
};

AdamFamily::AdamFamily(Rule rule, const AdamOptions& options, const Attributes& own)
    : Optimizer({{"lr", options.lr},
                 {"beta1", options.beta1},
                 {"beta2", options.beta2},
                 {"eps", options.eps},
                 {"weight_decay", options.weightDecay.value_or(rule == Rule::Adam ? 0.0 : 0.01)}},
                {options.lossScaling, options.maxGradNorm, options.accumType},
                own),
      rule_(rule),
      biasCorrection_(options.biasCorrection),
      firstType_(options.firstOrderMomentumAccumType),
      secondType_(options.secondOrderMomentumAccumType) {
  requireStateType("first_order_momentum_accum_type", firstType_);
  requireStateType("second_order_momentum_accum_type", secondType_);
  if (options.amsgrad) {
    raise<Unsupported>("Adam: amsgrad is not supported");
  }
}

std::optional<Attributes> AdamFamily::torchAdam() const {
  return biasCorrection_ ? std::optional<Attributes>({{"amsgrad", 0}, {"maximize", 0}})
                         : std::nullopt;
}

LAMB::LAMB(const LambOptions& options)
    : AdamFamily(Rule::Lamb, asAdam(options), {{"max_weight_norm", options.maxWeightNorm}}) {}

Attributes AdamFamily::defaults() const {
  return {{"eps", 1e-8},
          {"weight_decay", rule_ == Rule::Adam ? 0.0 : 0.01},
          {"max_weight_norm", 65500}};
}

std::optional<Attributes> AdamFamily::settings() const {
  return Attributes{{"biasCorrection", biasCorrection_ ? 1 : 0},
                    {"first", settingOf(firstType_)},
                    {"second", settingOf(secondType_)}};
}

std::string AdamFamily::structure() const {
  const auto text = [](std::optional<DType> type) {
    return type ? sluice::name(*type) : std::string_view("default");
  };
  return fmt::format("bias correction {}, moments {} and {}",
                     biasCorrection_,
                     text(firstType_),
                     text(secondType_));
}

AdamFamily::DerivedScalars AdamFamily::derived(const Attributes& attributes) const {
  const double beta1 = attributes.at("beta1");
  const double beta2 = attributes.at("beta2");
  return {{"one_minus_beta1", {1.0 - beta1, {"beta1"}}},
          {"one_minus_beta2", {1.0 - beta2, {"beta2"}}},
          {"log_beta1", {std::log(beta1), {"beta1"}}},
          {"log_beta2", {std::log(beta2), {"beta2"}}}};
}

void AdamFamily::update(UpdateContext& context) const {
  std::map<std::pair<std::size_t, DType>, Scalars> scalars;
  for (const Gradient& gradient : context.gradients()) {
    const std::size_t group = groupOf(gradient.variable);
    const DType type = context.computeType(gradient.variable);
    const std::pair key(group, type);
    if (!scalars.contains(key)) {
      context.placeAnywhere();
      scalars.emplace(key, scalarsOf(context, group, type));
    }
    context.placeWith(gradient);
    updateWeight(context, gradient, scalars.at(key));
  }
}

AdamFamily::Scalars AdamFamily::scalarsOf(UpdateContext& context,
                                          std::size_t group,
                                          DType type) const {
  const ir::Value t = ops::cast(context.b, context.step(), type);
  const auto get = [&](std::string_view name) { return scalar(context, name, group, type); };
  Scalars s{.lr = get("lr"),
            .beta1 = get("beta1"),
            .oneMinusBeta1 = get("one_minus_beta1"),
            .beta2 = get("beta2"),
            .oneMinusBeta2 = get("one_minus_beta2"),
            .eps = get("eps"),
            .decay = get("weight_decay"),
            .maxWeightNorm = {},
            .correction1 = {},
            .correction2 = {}};
  if (rule_ == Rule::Lamb) {
    s.maxWeightNorm = get("max_weight_norm");
  }
  if (biasCorrection_) {
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
  if (rule_ == Rule::Adam) {
    g = ops::add(b, g, ops::mul(b, w, s.decay));
  }
  const ir::Value oldFirst = context.state(name, kFirst, {.type = firstType_});
  const ir::Value oldSecond = context.state(name, kSecond, {.type = secondType_});
  const ir::Value m = ops::add(b, ops::mul(b, oldFirst, s.beta1), ops::mul(b, g, s.oneMinusBeta1));
  const ir::Value v =
      ops::add(b, ops::mul(b, oldSecond, s.beta2), ops::mul(b, ops::square(b, g), s.oneMinusBeta2));
  const bool corrected = s.correction1.valid();
  const ir::Value mean = corrected ? ops::mul(b, m, s.correction1) : m;
  const ir::Value variance = corrected ? ops::mul(b, v, s.correction2) : v;
  ir::Value x = ops::div(b, mean, ops::add(b, ops::sqrt(b, variance), s.eps));
  if (rule_ != Rule::Adam) {
    x = ops::add(b, x, ops::mul(b, w, s.decay));
  }
  ir::Value lr = s.lr;
  if (rule_ == Rule::Lamb) {
    lr = ops::mul(b, lr, trustRatio(b, w, x, s.maxWeightNorm));
  }
  const ir::Value moved = ops::sub(b, w, ops::mul(b, x, lr));
  // Behind all ops, so that these fuse.
  context.assignState(name, kFirst, m);
  context.assignState(name, kSecond, v);
  context.assignWeight(name, moved);
}

}  // namespace sluice::optim
