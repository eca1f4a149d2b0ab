// batch_norm: training form. Normalizes every channel (axis 1) by its own mean and biased variance
// over the batch and the positions, and returns both for the running averages and the gradient.
#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{kEpsilonAttr}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  epsilonOf(op);
  const ChannelDims d = channelDims(op);
  const DType dtype = op.inputs[0].dtype;
  requireType(op, 1, "gamma", {dtype, Shape{d.channels}});
  requireType(op, 2, "beta", {dtype, Shape{d.channels}});
  const TensorType statistics = {statisticsType(dtype), Shape{d.channels}};
  return {op.inputs[0], statistics, statistics};
}

/// What reaches x through the two statistics; none in a usual model.
Value throughStatistics(ir::GradContext& g) {
  GraphBuilder& b = g.b;
  const DType wide = g.op.outputs[1].dtype;
  const ChannelDims d = channelDims(g.op);
  const Shape perChannel = channelShape(d.channels, g.op.inputs[0].shape.rank());
  const auto count = static_cast<double>(std::max<std::int64_t>(d.count(), 1));
  const auto scaled = [&](Value v, double factor) {
    return reshape(b, mul(b, v, b.scalar(wide, factor / count)), perChannel);
  };
  Value sum;
  if (g.grad(1).valid()) {
    sum = broadcastTo(b, scaled(g.grad(1), 1.0), g.op.inputs[0].shape);
  }
  if (g.grad(2).valid()) {
    const Value mean = reshape(b, g.output(1), perChannel);
    const Value centred = sub(b, cast(b, g.input(0), wide), mean);
    sum = addIfAny(b, sum, mul(b, centred, scaled(g.grad(2), 2.0)));
  }
  return sum.valid() ? cast(b, sum, g.op.inputs[0].dtype) : sum;
}

std::vector<Value> grad(ir::GradContext& g) {
  std::vector<Value> grads(3);
  if (g.grad().valid()) {
    grads = g.b.addMany(kBatchNormGrad,
                        {g.input(0), g.input(1), g.output(1), g.output(2), g.grad()},
                        {{"epsilon", g.op.attrs.real("epsilon")}});
  }
  grads[0] = addIfAny(g.b, grads[0], throughStatistics(g));
  return grads;
}

void reference(const ir::KernelArgs& args) {
  const ChannelDims d = channelDims(args.op);
  const double epsilon = epsilonOf(args.op);
  const double count = std::max(1.0, static_cast<double>(d.count()));
  const std::vector<double> x = loadDoubles(args, 0);
  const std::vector<double> gamma = loadDoubles(args, 1);
  const std::vector<double> beta = loadDoubles(args, 2);
  std::vector<double> y(x.size());
  std::vector<double> mean(gamma.size(), 0.0);
  std::vector<double> variance(gamma.size(), 0.0);
  forEachInChannel(d, [&](std::size_t c, std::size_t i) { mean[c] += x[i]; });
  for (double& value : mean) {
    value /= count;
  }
  forEachInChannel(
      d, [&](std::size_t c, std::size_t i) { variance[c] += (x[i] - mean[c]) * (x[i] - mean[c]); });
  for (double& value : variance) {
    value /= count;
  }
  forEachInChannel(d, [&](std::size_t c, std::size_t i) {
    y[i] = (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * gamma[c] + beta[c];
  });
  storeDoubles(args, 0, y);
  storeDoubles(args, 1, mean);
  storeDoubles(args, 2, variance);
}

}  // namespace

constinit const ir::OpDef kBatchNorm{.name = "batch_norm",
                                     .minInputs = 3,
                                     .maxInputs = 3,
                                     .outputs = 3,
                                     .attrs = kAttrs,
                                     .infer = infer,
                                     .grad = grad,
                                     .gradReads = {.inputs = 0b011, .outputs = 0b110},
                                     .cost = costPerInput<8>,
                                     .reference = reference};

BatchNormValues batchNorm(GraphBuilder& b, Value x, Value gamma, Value beta, double epsilon) {
  const std::vector<Value> values = b.addMany(kBatchNorm, {x, gamma, beta}, {{"epsilon", epsilon}});
  return {.y = values[0], .mean = values[1], .variance = values[2]};
}

}  // namespace sluice::ops
