// layer_norm: (x - mean) * rstd * gamma + beta over all axes from `axis` on; also returns mean and
// rstd = 1 / sqrt(variance + epsilon), which the gradient reads.
#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {{kNormAxisAttr, kEpsilonAttr}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  epsilonOf(op);
  const RowDims d = rowDims(op);
  const DType dtype = op.inputs[0].dtype;
  requireType(op, 1, "gamma", {dtype, d.row});
  requireType(op, 2, "beta", {dtype, d.row});
  const TensorType statistics = {statisticsType(dtype), d.statistics};
  return {op.inputs[0], statistics, statistics};
}

/// What reaches x through the two statistics; none in a usual model.
Value throughStatistics(ir::GradContext& g) {
  GraphBuilder& b = g.b;
  const DType wide = g.op.outputs[1].dtype;
  const auto count = static_cast<double>(std::max<std::int64_t>(rowDims(g.op).columns, 1));
  Value sum;
  if (g.grad(1).valid()) {
    sum = broadcastTo(b, mul(b, g.grad(1), b.scalar(wide, 1.0 / count)), g.op.inputs[0].shape);
  }
  if (g.grad(2).valid()) {
    const Value rstd = g.output(2);
    const Value cube = mul(b, mul(b, rstd, rstd), rstd);
    const Value slope = mul(b, mul(b, g.grad(2), cube), b.scalar(wide, -1.0 / count));
    const Value centred = sub(b, cast(b, g.input(0), wide), g.output(1));
    sum = addIfAny(b, sum, mul(b, centred, slope));
  }
  return sum.valid() ? cast(b, sum, g.op.inputs[0].dtype) : sum;
}

std::vector<Value> grad(ir::GradContext& g) {
  std::vector<Value> grads(3);
  if (g.grad().valid()) {
    grads = g.b.addMany(kLayerNormGrad,
                        {g.input(0), g.input(1), g.output(1), g.output(2), g.grad()},
                        {{"axis", g.op.integer("axis")}});
  }
  grads[0] = addIfAny(g.b, grads[0], throughStatistics(g));
  return grads;
}

void reference(const ir::KernelArgs& args) {
  const RowDims d = rowDims(args.op);
  const double epsilon = epsilonOf(args.op);
  const auto columns = static_cast<std::size_t>(d.columns);
  const double count = std::max(1.0, static_cast<double>(columns));
  const std::vector<double> x = loadDoubles(args, 0);
  const std::vector<double> gamma = loadDoubles(args, 1);
  const std::vector<double> beta = loadDoubles(args, 2);
  std::vector<double> y(x.size());
  std::vector<double> means(static_cast<std::size_t>(d.rows));
  std::vector<double> rstds(means.size());
  for (std::size_t r = 0; r < means.size(); ++r) {
    const std::span<const double> row = std::span(x).subspan(r * columns, columns);
    double sum = 0;
    for (const double value : row) {
      sum += value;
    }
    const double mean = sum / count;
    double squares = 0;
    for (const double value : row) {
      squares += (value - mean) * (value - mean);
    }
    const double rstd = 1.0 / std::sqrt(squares / count + epsilon);
    for (std::size_t c = 0; c < columns; ++c) {
      y[r * columns + c] = (row[c] - mean) * rstd * gamma[c] + beta[c];
    }
    means[r] = mean;
    rstds[r] = rstd;
  }
  storeDoubles(args, 0, y);
  storeDoubles(args, 1, means);
  storeDoubles(args, 2, rstds);
}

constexpr ir::OnnxName kOnnx[] = {{"LayerNormalization", 17}};

}  // namespace

constinit const ir::OpDef kLayerNorm{.name = "layer_norm",
                                     .minInputs = 3,
                                     .maxInputs = 3,
                                     .outputs = 3,
                                     .attrs = kAttrs,
                                     .infer = infer,
                                     .grad = grad,
                                     .gradReads = {.inputs = 0b011, .outputs = 0b110},
                                     .cost = costPerInput<8>,
                                     .reference = reference,
                                     .onnx = kOnnx};

Value layerNorm(GraphBuilder& b, Value x, Value gamma, Value beta, NormOptions options) {
  return b.add(
      kLayerNorm, {x, gamma, beta}, {{"axis", options.axis}, {"epsilon", options.epsilon}});
}

}  // namespace sluice::ops
