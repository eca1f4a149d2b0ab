// What all rules share when they become ops: the loss is scaled before the backward pass, gradients
// are scaled back and clipped before the rule sees them.
#include <limits>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ops/ops.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/update_context.h"

namespace sluice::optim {
namespace {

/// Each gradient in its compute type times what `factorOf` gives for that type.
template <class FactorOf>
void scaleGradients(UpdateContext& context, const FactorOf& factorOf) {
  ir::GraphBuilder& b = context.b;
  std::vector<Gradient> scaled;
  for (const Gradient& gradient : context.gradients()) {
    if (gradient.inVelocity) {
      scaled.push_back(gradient);
      continue;
    }
    context.placeAnywhere();
    const ir::Value factor = factorOf(context.computeType(gradient.variable));
    context.placeWith(gradient);
    scaled.push_back({gradient.variable, ops::mul(b, context.gradient(gradient), factor)});
  }
  context.placeAnywhere();
  context.setGradients(std::move(scaled));
}

/// Of all gradients, in parameter order (rule R9).
ir::Value sumOfSquares(UpdateContext& context) {
  ir::GraphBuilder& b = context.b;
  ir::Value sum;
  for (const Gradient& gradient : context.gradients()) {
    context.placeWith(gradient);
    const ir::Value squares = ops::square(b, context.gradient(gradient));
    const ir::Value part = ops::cast(b, ops::reduceSum(b, squares, {}), context.scalarType());
    context.placeAnywhere();
    sum = sum.valid() ? ops::add(b, sum, part) : part;
  }
  context.placeAnywhere();
  return sum;
}

/// g * max / maximum(norm, max). Below the maximum the factor is exactly 1.
void clip(UpdateContext& context, ir::Value maximum) {
  ir::GraphBuilder& b = context.b;
  const ir::Value norm = ops::sqrt(b, sumOfSquares(context));
  const ir::Value factor = ops::div(b, maximum, ops::maximum(b, norm, maximum));
  scaleGradients(context, [&](DType type) { return ops::cast(b, factor, type); });
}

/// A NaN is not below infinity, either.
void leaveOutUnlessFinite(UpdateContext& context) {
  ir::GraphBuilder& b = context.b;
  const ir::Value infinity =
      b.scalar(context.scalarType(), std::numeric_limits<double>::infinity());
  context.setGuard(ops::less(b, sumOfSquares(context), infinity));
}

}  // namespace

bool Optimizer::gathersInVelocity(std::string_view) const {
  return false;
}

ir::Value Optimizer::gathered(ir::GraphBuilder&,
                              std::string_view,
                              ir::Value gradient,
                              const Gathering&) const {
  return gradient;
}

ir::Value Optimizer::lossGradient(ir::GraphBuilder& b, DType loss, DType scalarType) const {
  if (leftOut("loss_scaling")) {
    return {};
  }
  constexpr double kLargestHalf = 65504;
  if (loss == DType::F16 && get("loss_scaling") > kLargestHalf) {
    raise<InvalidArgument>(
        "{}: a loss_scaling of {} is more than the loss's float16 holds; cast the loss to float32",
        name(),
        get("loss_scaling"));
  }
  return scalar(b, "loss_scaling", 0, scalarType, loss);
}

void Optimizer::expand(UpdateContext& context) const {
  if (context.gradients().empty()) {
    return;
  }
  const ir::AnnotationScope saved(context.b);
  context.b.scope = "update/";
  const ir::Value lossFactor = context.lossFactor();
  if (lossFactor.valid()) {
    const ir::Value inverse =
        ops::mul(context.b,
                 scalar(context, "inverse_loss_scaling", 0, context.scalarType()),
                 ops::reciprocal(context.b, lossFactor));
    scaleGradients(context, [&](DType type) { return ops::cast(context.b, inverse, type); });
    leaveOutUnlessFinite(context);
  } else if (!leftOut("loss_scaling")) {
    scaleGradients(context,
                   [&](DType type) { return scalar(context, "inverse_loss_scaling", 0, type); });
  }
  if (!leftOut("max_grad_norm")) {
    clip(context, scalar(context, "max_grad_norm", 0, context.scalarType()));
  }
  update(context);
}

}  // namespace sluice::optim
