// layer_norm_grad: dx, dgamma and dbeta from (x, gamma, mean, rstd, dy). With xhat = (x - mean) *
// rstd and h = dy * gamma: dx = rstd * (h - mean(h) - xhat * mean(h * xhat)).
#include <algorithm>
#include <array>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{kNormAxisAttr}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  const RowDims d = rowDims(op);
  const DType dtype = op.inputs[0].dtype;
  requireType(op, 1, "gamma", {dtype, d.row});
  requireType(op, 2, "mean", {statisticsType(dtype), d.statistics});
  requireType(op, 3, "rstd", {statisticsType(dtype), d.statistics});
  requireType(op, 4, "the output gradient", op.inputs[0]);
  return {op.inputs[0], op.inputs[1], op.inputs[1]};
}

void reference(const ir::KernelArgs& args) {
  const RowDims d = rowDims(args.op);
  const auto columns = static_cast<std::size_t>(d.columns);
  const double count = std::max(1.0, static_cast<double>(columns));
  const std::vector<double> x = loadDoubles(args, 0);
  const std::vector<double> gamma = loadDoubles(args, 1);
  const std::vector<double> means = loadDoubles(args, 2);
  const std::vector<double> rstds = loadDoubles(args, 3);
  const std::vector<double> dy = loadDoubles(args, 4);
  std::vector<double> dx(x.size());
  std::vector<double> dgamma(columns, 0.0);
  std::vector<double> dbeta(columns, 0.0);
  for (std::size_t r = 0; r < means.size(); ++r) {
    const std::size_t first = r * columns;
    const auto xhat = [&](std::size_t c) { return (x[first + c] - means[r]) * rstds[r]; };
    double sum = 0;
    double sumHat = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      sum += dy[first + c] * gamma[c];
      sumHat += dy[first + c] * gamma[c] * xhat(c);
      dgamma[c] += dy[first + c] * xhat(c);
      dbeta[c] += dy[first + c];
    }
    for (std::size_t c = 0; c < columns; ++c) {
      dx[first + c] =
          rstds[r] * (dy[first + c] * gamma[c] - sum / count - xhat(c) * sumHat / count);
    }
  }
  storeDoubles(args, 0, dx);
  storeDoubles(args, 1, dgamma);
  storeDoubles(args, 2, dbeta);
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const DType wide = op.inputs[2].dtype;
  const RowAxes axes = rowAxes(op);
  const Value rstd = inputs[3];
  const Value dy = cast(b, inputs[4], wide);
  const Value xhat = mul(b, sub(b, cast(b, inputs[0], wide), inputs[2]), rstd);
  const Value h = mul(b, dy, cast(b, inputs[1], wide));
  const Value mean = reduceMean(b, h, axes.row, true);
  const Value slope = mul(b, xhat, reduceMean(b, mul(b, h, xhat), axes.row, true));
  const Value dx = mul(b, rstd, sub(b, sub(b, h, mean), slope));
  return {cast(b, dx, dtype),
          cast(b, sumOver(b, mul(b, dy, xhat), axes.rows), dtype),
          cast(b, sumOver(b, dy, axes.rows), dtype)};
}

}  // namespace

constinit const ir::OpDef kLayerNormGrad{.name = "layer_norm_grad",
                                         .minInputs = 5,
                                         .maxInputs = 5,
                                         .outputs = 3,
                                         .attrs = kAttrs,
                                         .infer = infer,
                                         .cost = costPerInput<14>,
                                         .reference = reference,
                                         .decompose = decompose};

}  // namespace sluice::ops
