// rms_norm: x * rrms * gamma over all axes from `axis` on; also returns rrms = 1 / sqrt(mean(x^2) +
// epsilon), which the gradient reads.
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
  return {op.inputs[0], {statisticsType(dtype), d.statistics}};
}

/// What reaches x through rrms itself; none in a usual model.
Value throughStatistics(ir::GradContext& g) {
  if (!g.grad(1).valid()) {
    return {};
  }
  GraphBuilder& b = g.b;
  const DType wide = g.op.outputs[1].dtype;
  const auto count = static_cast<double>(std::max<std::int64_t>(rowDims(g.op).columns, 1));
  const Value rrms = g.output(1);
  const Value cube = mul(b, mul(b, rrms, rrms), rrms);
  const Value slope = mul(b, mul(b, g.grad(1), cube), b.scalar(wide, -1.0 / count));
  return cast(b, mul(b, cast(b, g.input(0), wide), slope), g.op.inputs[0].dtype);
}

std::vector<Value> grad(ir::GradContext& g) {
  std::vector<Value> grads(2);
  if (g.grad().valid()) {
    grads = g.b.addMany(kRmsNormGrad,
                        {g.input(0), g.input(1), g.output(1), g.grad()},
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
  std::vector<double> y(x.size());
  std::vector<double> rrms(static_cast<std::size_t>(d.rows));
  for (std::size_t r = 0; r < rrms.size(); ++r) {
    const std::span<const double> row = std::span(x).subspan(r * columns, columns);
    double squares = 0;
    for (const double value : row) {
      squares += value * value;
    }
    rrms[r] = 1.0 / std::sqrt(squares / count + epsilon);
    for (std::size_t c = 0; c < columns; ++c) {
      y[r * columns + c] = row[c] * rrms[r] * gamma[c];
    }
  }
  storeDoubles(args, 0, y);
  storeDoubles(args, 1, rrms);
}

constexpr ir::OnnxName kOnnx[] = {{"RMSNormalization", 23}};

}  // namespace

constinit const ir::OpDef kRmsNorm{.name = "rms_norm",
                                   .minInputs = 2,
                                   .maxInputs = 2,
                                   .outputs = 2,
                                   .attrs = kAttrs,
                                   .infer = infer,
                                   .grad = grad,
                                   .gradReads = {.inputs = 0b11, .outputs = 0b10},
                                   .cost = costPerInput<4>,
                                   .reference = reference,
                                   .onnx = kOnnx};

Value rmsNorm(GraphBuilder& b, Value x, Value gamma, NormOptions options) {
  return b.add(kRmsNorm, {x, gamma}, {{"axis", options.axis}, {"epsilon", options.epsilon}});
}

}  // namespace sluice::ops
