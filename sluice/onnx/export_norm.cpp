// Forms of normalizations, and of softmax's gradients. What no node of opset 17 normalizes is said
// by means and square roots, in 32 bits at least, as the ops themselves compute.
#include <array>

#include "sluice/onnx/model_writer.h"
#include "sluice/onnx/running_norm.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// x less its mean over `axes`, which stay with extent 1, and the mean of its square.
struct Centred {
  Value mean;
  Value x;
  Value variance;
};

Centred centred(ir::GraphBuilder& b, Value x, const Ints& axes) {
  const Value mean = ops::reduceMean(b, x, axes, true);
  const Value rest = ops::sub(b, x, mean);
  return {mean, rest, ops::reduceMean(b, ops::mul(b, rest, rest), axes, true)};
}

/// 1 / sqrt(square + epsilon).
Value reciprocalRoot(const Whole& whole, Value square) {
  ir::GraphBuilder& b = whole.b;
  const Value epsilon = b.scalar(b.dtype(square), whole.op.attrs.real("epsilon"));
  return ops::reciprocal(b, ops::sqrt(b, ops::add(b, square, epsilon)));
}

std::vector<Value> batchNormParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const TensorType& type = whole.op.inputs[0];
  const DType wide = ops::statisticsType(type.dtype);
  const ops::ChannelDims d = ops::channelDims(whole.op);
  if (d.count() == 0) {
    const Value zeros = ops::full(b, whole.op.outputs[1], 0.0);
    return {ops::full(b, type, 0.0), zeros, zeros};
  }
  Ints axes;
  for (std::int64_t i = 0; i < type.shape.rank(); ++i) {
    if (i != 1) {
      axes.push_back(i);
    }
  }
  const Shape perChannel = ops::channelShape(d.channels, type.shape.rank());
  const auto spread = [&](Value v) { return ops::reshape(b, ops::cast(b, v, wide), perChannel); };
  const Centred x = centred(b, ops::cast(b, whole.inputs[0], wide), axes);
  const Value normal = ops::mul(b, x.x, reciprocalRoot(whole, x.variance));
  const Value scaled = ops::mul(b, normal, spread(whole.inputs[1]));
  const Value y = ops::cast(b, ops::add(b, scaled, spread(whole.inputs[2])), type.dtype);
  const Shape flat{d.channels};
  return {y, ops::reshape(b, x.mean, flat), ops::reshape(b, x.variance, flat)};
}

void writeRunningNorm(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"BatchNormalization",
                  writer.operands(op),
                  {{"epsilon", op.attrs.real("epsilon")},
                   {"momentum", op.attrs.real("momentum")},
                   {"training_mode", 1}}});
}

/// Groups of one channel: the standard's instance norm.
void writeInstanceNorm(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op, {"InstanceNormalization", writer.operands(op), {{"epsilon", op.attrs.real("epsilon")}}});
}

Fit fitGroupNorm(const UsedGraph& graph, const ir::Op& op) {
  const Shape& shape = graph.shape(op, 0);
  const double epsilon = op.attrs.real("epsilon");
  const bool instance = shape.rank() > 2 && op.attrs.integer("groups") == shape[1];
  return instance ? fitOfReals(std::span(&epsilon, 1)) : Fit::None;
}

bool readsStatistics(const UsedGraph& graph, const ir::Op& op) {
  return graph.isRead(op.out(1)) || graph.isRead(op.out(2));
}

void writeLayerNorm(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"LayerNormalization",
                  writer.operands(op),
                  {{"axis", op.attrs.integer("axis")}, {"epsilon", op.attrs.real("epsilon")}},
                  readsStatistics(writer.used(), op) ? std::size_t{3} : std::size_t{1}});
}

/// The standard computes its statistics in 32 bits only.
Fit fitLayerNorm(const UsedGraph& /*graph*/, const ir::Op& op) {
  const double epsilon = op.attrs.real("epsilon");
  return op.outputs[1].dtype == DType::F64 ? Fit::None : fitOfReals(std::span(&epsilon, 1));
}

std::vector<Value> layerNormParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const DType wide = whole.op.outputs[1].dtype;
  const Centred x = centred(b, ops::cast(b, whole.inputs[0], wide), ops::rowAxes(whole.op).row);
  const Value root = reciprocalRoot(whole, x.variance);
  const Value scaled = ops::mul(b, ops::mul(b, x.x, root), ops::cast(b, whole.inputs[1], wide));
  const Value y = ops::add(b, scaled, ops::cast(b, whole.inputs[2], wide));
  return {ops::cast(b, y, whole.op.outputs[0].dtype), x.mean, root};
}

std::vector<Value> rmsNormParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const DType wide = whole.op.outputs[1].dtype;
  const Value x = ops::cast(b, whole.inputs[0], wide);
  const Value root = reciprocalRoot(
      whole, ops::reduceMean(b, ops::mul(b, x, x), ops::rowAxes(whole.op).row, true));
  const Value y = ops::mul(b, ops::mul(b, x, root), ops::cast(b, whole.inputs[1], wide));
  return {ops::cast(b, y, whole.op.outputs[0].dtype), root};
}

std::vector<Value> softmaxGradParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value y = whole.wide(0);
  const Value dy = whole.wide(1);
  const Value sum = ops::reduceSum(b, ops::mul(b, y, dy), {whole.op.integer("axis")}, true);
  return {whole.rounded(ops::mul(b, y, ops::sub(b, dy, sum)))};
}

std::vector<Value> logSoftmaxGradParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value dy = whole.wide(1);
  const Value sum = ops::reduceSum(b, dy, {whole.op.integer("axis")}, true);
  return {whole.rounded(ops::sub(b, dy, ops::mul(b, ops::exp(b, whole.wide(0)), sum)))};
}

constexpr std::array kNormForms = {
    StandardForm{.op = "batch_norm", .parts = batchNormParts},
    StandardForm{"group_norm", writeInstanceNorm, fitGroupNorm},
    StandardForm{"layer_norm", writeLayerNorm, fitLayerNorm, layerNormParts},
    StandardForm{.op = "log_softmax_grad", .parts = logSoftmaxGradParts},
    StandardForm{.op = "rms_norm", .parts = rmsNormParts},
    StandardForm{"running_batch_norm", writeRunningNorm},
    StandardForm{.op = "softmax_grad", .parts = softmaxGradParts},
};

}  // namespace

std::span<const StandardForm> normForms() {
  return kNormForms;
}

}  // namespace sluice::onnx
