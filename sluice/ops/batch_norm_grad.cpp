// batch_norm_grad: dx, dgamma and dbeta of the training form from (x, gamma, mean, variance, dy).
// With xhat = (x - mean) * rstd: dx = gamma * rstd * (dy - mean(dy) - xhat * mean(dy * xhat)).
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
  const TensorType statistics = {statisticsType(dtype), Shape{d.channels}};
  requireType(op, 1, "gamma", {dtype, Shape{d.channels}});
  requireType(op, 2, "mean", statistics);
  requireType(op, 3, "variance", statistics);
  requireType(op, 4, "the output gradient", op.inputs[0]);
  return {op.inputs[0], op.inputs[1], op.inputs[1]};
}

void reference(const ir::KernelArgs& args) {
  const ChannelDims d = channelDims(args.op);
  const double epsilon = epsilonOf(args.op);
  const double count = std::max(1.0, static_cast<double>(d.count()));
  const std::vector<double> x = loadDoubles(args, 0);
  const std::vector<double> gamma = loadDoubles(args, 1);
  const std::vector<double> mean = loadDoubles(args, 2);
  std::vector<double> rstd = loadDoubles(args, 3);
  for (double& value : rstd) {
    value = 1.0 / std::sqrt(value + epsilon);
  }
  const std::vector<double> dy = loadDoubles(args, 4);
  std::vector<double> dx(x.size());
  std::vector<double> dgamma(gamma.size(), 0.0);
  std::vector<double> dbeta(gamma.size(), 0.0);
  const auto xhat = [&](std::size_t c, std::size_t i) { return (x[i] - mean[c]) * rstd[c]; };
  forEachInChannel(d, [&](std::size_t c, std::size_t i) {
    dgamma[c] += dy[i] * xhat(c, i);
    dbeta[c] += dy[i];
  });
  forEachInChannel(d, [&](std::size_t c, std::size_t i) {
    dx[i] = gamma[c] * rstd[c] * (dy[i] - dbeta[c] / count - xhat(c, i) * dgamma[c] / count);
  });
  storeDoubles(args, 0, dx);
  storeDoubles(args, 1, dgamma);
  storeDoubles(args, 2, dbeta);
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const DType wide = op.inputs[2].dtype;
  const Shape& shape = op.inputs[0].shape;
  const Shape each = channelShape(shape[1], shape.rank());
  std::vector<std::int64_t> axes = {0};
  for (std::int64_t i = 2; i < shape.rank(); ++i) {
    axes.push_back(i);
  }
  const auto spread = [&](Value x) { return reshape(b, cast(b, x, wide), each); };
  const Value dy = cast(b, inputs[4], wide);
  const Value variance = add(b, spread(inputs[3]), b.scalar(wide, epsilonOf(op)));
  const Value rstd = rsqrt(b, variance);
  const Value xhat = mul(b, sub(b, cast(b, inputs[0], wide), spread(inputs[2])), rstd);
  const Value slope = mul(b, xhat, reduceMean(b, mul(b, dy, xhat), axes, true));
  const Value rest = sub(b, sub(b, dy, reduceMean(b, dy, axes, true)), slope);
  return {cast(b, mul(b, mul(b, spread(inputs[1]), rstd), rest), dtype),
          cast(b, reduceSum(b, mul(b, dy, xhat), axes), dtype),
          cast(b, reduceSum(b, dy, axes), dtype)};
}

}  // namespace

constinit const ir::OpDef kBatchNormGrad{.name = "batch_norm_grad",
                                         .minInputs = 5,
                                         .maxInputs = 5,
                                         .outputs = 3,
                                         .attrs = kAttrs,
                                         .infer = infer,
                                         .cost = costPerInput<12>,
                                         .reference = reference,
                                         .decompose = decompose};

}  // namespace sluice::ops
