// batch_norm_inference: (x - mean) * gamma / sqrt(variance + epsilon) + beta per channel (axis 1)
// with given statistics. Computed in the type of the statistics, then rounded to that of x.
#include <array>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
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
  requireType(op, 2, "beta", {dtype, Shape{d.channels}});
  requireType(op, 3, "mean", statistics);
  requireType(op, 4, "variance", statistics);
  return {op.inputs[0]};
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const DType wide = statisticsType(dtype);
  const Shape perChannel = channelShape(op.inputs[0].shape[1], op.inputs[0].shape.rank());
  const auto spread = [&](Value v) { return reshape(b, v, perChannel); };
  const Value rstd = rsqrt(b, add(b, inputs[4], b.scalar(wide, op.attrs.real("epsilon"))));
  const Value scale = mul(b, cast(b, inputs[1], wide), rstd);
  const Value centred = sub(b, cast(b, inputs[0], wide), spread(inputs[3]));
  const Value scaled = mul(b, centred, spread(scale));
  return {cast(b, add(b, scaled, spread(cast(b, inputs[2], wide))), dtype)};
}

constexpr ir::OnnxName kOnnx[] = {{"BatchNormalization", 1},
                                  {"BatchNormalization", 6},
                                  {"BatchNormalization", 7},
                                  {"BatchNormalization", 9},
                                  {"BatchNormalization", 14},
                                  {"BatchNormalization", 15}};

}  // namespace

constinit const ir::OpDef kBatchNormInference{.name = "batch_norm_inference",
                                              .minInputs = 5,
                                              .maxInputs = 5,
                                              .attrs = kAttrs,
                                              .infer = infer,
                                              .decompose = decompose,
                                              .onnx = kOnnx};

Value batchNormInference(GraphBuilder& b, Value x, const BatchNormInputs& inputs, double epsilon) {
  return b.add(kBatchNormInference,
               {x, inputs.gamma, inputs.beta, inputs.mean, inputs.variance},
               {{"epsilon", epsilon}});
}

}  // namespace sluice::ops
