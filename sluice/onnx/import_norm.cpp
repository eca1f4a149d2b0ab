// Translations of normalizations and of softmax: versions that differ in what is flattened, in how
// training is asked for and in which statistics are results.
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;
using OnAxis = Value (*)(ir::GraphBuilder&, Value, std::int64_t);

std::int64_t product(const Shape& shape, std::int64_t first, std::int64_t last) {
  std::int64_t count = 1;
  for (std::int64_t i = first; i < last; ++i) {
    count *= shape[i];
  }
  return count;
}

/// Before version 13 all axes from `axis` on count as one.
std::vector<Value> onAxis(Node& node, OnAxis apply) {
  const Value x = node.input(0);
  const Shape shape = node.b.shape(x);
  if (node.version() >= 13) {
    return {apply(node.b, x, node.integer("axis", -1))};
  }
  std::int64_t axis = node.integer("axis", 1);
  axis = axis == shape.rank() ? axis : normalizeAxis(axis, shape.rank());
  const Shape flat{product(shape, 0, axis), product(shape, axis, shape.rank())};
  return {ops::reshape(node.b, apply(node.b, ops::reshape(node.b, x, flat), 1), shape)};
}

template <OnAxis kApply>
std::vector<Value> softmax(Node& node) {
  return onAxis(node, kApply);
}

Value spread(ir::GraphBuilder& b, Value x, const Shape& shape) {
  return b.shape(x) == shape ? x : ops::broadcastTo(b, x, shape);
}

std::vector<Value> layerNormalization(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value x = node.input(0);
  const TensorType type = b.type(x);
  const std::int64_t axis = normalizeAxis(node.integer("axis", -1), type.shape.rank());
  const Shape row(Ints(type.shape.dims().begin() + axis, type.shape.dims().end()));
  const Value gamma = spread(b, node.input(1), row);
  const Value beta =
      node.has(2) ? spread(b, node.input(2), row) : ops::full(b, {type.dtype, row}, 0.0);
  std::vector<Value> results =
      b.addMany(ops::kLayerNorm,
                {x, gamma, beta},
                {{"axis", node.integer("axis", -1)}, {"epsilon", node.real("epsilon", 1e-5)}});
  const DType stash = node.dtypeAttr("stash_type", DType::F32);
  results[1] = ops::cast(b, results[1], stash);
  results[2] = ops::cast(b, results[2], stash);
  return results;
}

std::vector<Value> instanceNormalization(Node& node) {
  const std::int64_t channels = node.rank(0) > 1 ? node.shape(0)[1] : 0;
  return {ops::groupNorm(
      node.b, node.input(0), node.input(1), node.input(2), channels, node.real("epsilon", 1e-5))};
}

std::vector<Value> meanVarianceNormalization(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value x = node.input(0);
  Ints axes = node.integers("axes");
  axes = axes.empty() ? Ints{0, 2, 3} : axes;
  const Value centred = ops::sub(b, x, ops::reduceMean(b, x, axes, true));
  const Value deviation = ops::sqrt(b, ops::reduceMean(b, ops::square(b, centred), axes, true));
  // As the standard's definition has it, against a division by 0.
  return {ops::div(b, centred, ops::add(b, deviation, b.scalar(b.dtype(x), 1e-9)))};
}

/// The vendor's op also gives the statistics, one per batch item and group.
std::vector<Value> groupNormalization(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value x = node.input(0);
  const TensorType type = b.type(x);
  const std::int64_t groups = node.integer("num_groups");
  const double epsilon = node.real("epsilon", 1e-5);
  std::vector<Value> results = {
      ops::groupNorm(b, x, node.input(1), node.input(2), groups, epsilon)};
  if (node.wants(1) || node.wants(2)) {
    const std::int64_t rows = type.shape[0] * groups;
    const Shape row{rows == 0 ? 0 : type.shape.elements() / rows};
    const std::vector<Value> statistics = b.addMany(ops::kLayerNorm,
                                                    {ops::reshape(b, x, Shape{rows, row[0]}),
                                                     ops::full(b, {type.dtype, row}, 1.0),
                                                     ops::full(b, {type.dtype, row}, 0.0)},
                                                    {{"axis", 1}, {"epsilon", epsilon}});
    for (const Value statistic : {statistics[1], statistics[2]}) {
      results.push_back(ops::reshape(b, ops::cast(b, statistic, type.dtype), Shape{rows}));
    }
  }
  return results;
}

/// How a node says that it is to normalize by the batch's own statistics.
bool trains(const Node& node) {
  if (node.version() >= 14) {
    return node.flag("training_mode");
  }
  if (node.version() >= 7) {
    return node.wants(1) || node.wants(2) || node.wants(3) || node.wants(4);
  }
  return !node.flag("is_test");
}

/// [batch, channels, ...]: one axis alone is the batch, and without `spatial` every position is a
/// channel of its own.
Shape channelView(const Node& node, const Shape& shape) {
  if (shape.rank() == 1) {
    return Shape{shape[0], 1};
  }
  return node.flag("spatial", true) ? shape : Shape{shape[0], product(shape, 1, shape.rank())};
}

/// The running statistic of operand i after the batch, in the operand's type; kept if the operand
/// is state.
Value track(Node& node, std::size_t i, Value batch) {
  ir::GraphBuilder& b = node.b;
  const Value running = node.buffer(i);
  const DType dtype = b.dtype(running);
  const double momentum = node.real("momentum", 0.9);
  const Value now = ops::reshape(b, ops::cast(b, batch, dtype), Shape(b.shape(running)));
  const Value next = ops::add(b,
                              ops::mul(b, running, b.scalar(dtype, momentum)),
                              ops::mul(b, now, b.scalar(dtype, 1.0 - momentum)));
  const ir::Op& read = b.graph().op(running.op);
  const std::string name = read.is(ir::kVariable) ? read.attrs.text("var") : "";
  const ir::Variable* variable = name.empty() ? nullptr : b.graph().findVariable(name);
  if (variable != nullptr && variable->role == ir::VariableRole::Buffer) {
    b.assign(name, next);
  }
  return next;
}

std::vector<Value> batchNormalized(Node& node, bool training) {
  ir::GraphBuilder& b = node.b;
  const TensorType type = node.type(0);
  const Shape view = channelView(node, type.shape);
  const Value x = view == type.shape ? node.input(0) : ops::reshape(b, node.input(0), view);
  const Shape perChannel{view.rank() > 1 ? view[1] : 0};
  const auto operand = [&](Value value, DType dtype) {
    const Value cast = ops::cast(b, value, dtype);
    return b.shape(cast) == perChannel ? cast : ops::reshape(b, cast, perChannel);
  };
  const DType wide = ops::statisticsType(type.dtype);
  const double epsilon = node.real("epsilon", 1e-5);
  const Value gamma = operand(node.input(1), type.dtype);
  const Value beta = operand(node.input(2), type.dtype);
  if (!training) {
    const Value y = ops::batchNormInference(b,
                                            x,
                                            {.gamma = gamma,
                                             .beta = beta,
                                             .mean = operand(node.buffer(3), wide),
                                             .variance = operand(node.buffer(4), wide)},
                                            epsilon);
    return {view == type.shape ? y : ops::reshape(b, y, type.shape)};
  }
  const ops::BatchNormValues batch = ops::batchNorm(b, x, gamma, beta, epsilon);
  const Value y = view == type.shape ? batch.y : ops::reshape(b, batch.y, type.shape);
  const Value mean = track(node, 3, batch.mean);
  const Value variance = track(node, 4, batch.variance);
  // Versions 1 to 9 have the batch's statistics as results 3 and 4.
  return {y,
          mean,
          variance,
          ops::cast(b, batch.mean, b.dtype(mean)),
          ops::cast(b, batch.variance, b.dtype(variance))};
}

std::vector<Value> batchNormalization(Node& node) {
  return batchNormalized(node, trains(node));
}

/// Whoever asks for the statistics trains.
std::vector<Value> vendorBatchNormalization(Node& node) {
  return batchNormalized(node, node.numOutputs() > 1);
}

constexpr std::array kNormTranslations = {
    Translation{"BatchNormalization", batchNormalization},
    Translation{"BatchNormalization", vendorBatchNormalization, ops::kVendorDomain},
    Translation{"GroupNormalization", groupNormalization, ops::kVendorDomain},
    Translation{"Hardmax", softmax<ops::hardmax>},
    Translation{"InstanceNormalization", instanceNormalization},
    Translation{"LayerNormalization", layerNormalization},
    Translation{"LogSoftmax", softmax<ops::logSoftmax>},
    Translation{"MeanVarianceNormalization", meanVarianceNormalization},
    Translation{"Softmax", softmax<ops::softmax>},
};

}  // namespace

std::span<const Translation> normTranslations() {
  return kNormTranslations;
}

}  // namespace sluice::onnx
