// group_norm: normalizes each group of channels (axis 1) of each batch item over its channels and
// positions, then scales and shifts per channel. A layer_norm over the grouped axes.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "groups", .kind = ir::AttrKind::Int, .required = true}, kEpsilonAttr}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  epsilonOf(op);
  const ChannelDims d = channelDims(op);
  const std::int64_t groups = op.integer("groups");
  if (groups < 1 || d.channels % groups != 0) {
    raise<InvalidArgument>("group_norm: {} groups do not divide {} channels", groups, d.channels);
  }
  requireType(op, 1, "gamma", {op.inputs[0].dtype, Shape{d.channels}});
  requireType(op, 2, "beta", {op.inputs[0].dtype, Shape{d.channels}});
  return {op.inputs[0]};
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const ChannelDims d = channelDims(op);
  const TensorType& type = op.inputs[0];
  const std::int64_t groups = op.integer("groups");
  const Shape row = {d.channels / groups * d.positions};
  const auto filled = [&](double value) {
    return broadcastTo(b, b.scalar(type.dtype, value), row);
  };
  const Value grouped = reshape(b, inputs[0], Shape{d.batch, groups, row[0]});
  const Value normal = layerNorm(
      b, grouped, filled(1.0), filled(0.0), {.axis = 2, .epsilon = op.attrs.real("epsilon")});
  const Shape perChannel = channelShape(d.channels, type.shape.rank());
  const Value scaled = mul(b, reshape(b, normal, type.shape), reshape(b, inputs[1], perChannel));
  return {add(b, scaled, reshape(b, inputs[2], perChannel))};
}

constexpr ir::OnnxName kOnnx[] = {{"GroupNormalization", 21},
                                  {"GroupNormalization", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kGroupNorm{.name = "group_norm",
                                     .minInputs = 3,
                                     .maxInputs = 3,
                                     .attrs = kAttrs,
                                     .infer = infer,
                                     .decompose = decompose,
                                     .onnx = kOnnx};

Value groupNorm(
    GraphBuilder& b, Value x, Value gamma, Value beta, std::int64_t groups, double epsilon) {
  return b.add(kGroupNorm, {x, gamma, beta}, {{"groups", groups}, {"epsilon", epsilon}});
}

}  // namespace sluice::ops
