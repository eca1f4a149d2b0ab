// Forms of ops that pick or place elements by index. Offsets that are operands become lists of
// indices, since shapes are static.
#include <algorithm>
#include <array>

#include "sluice/onnx/model_writer.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

void writeArgMax(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op,
      {"ArgMax",
       writer.operands(op),
       {{"axis", op.attrs.integer("axis")}, {"keepdims", op.attrs.flag("keepDims") ? 1 : 0}}});
}

/// The number of boundaries below each element, all of them for NaN.
std::vector<Value> bucketizeParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value x = ops::unsqueeze(b, whole.inputs[0], {-1});
  const Value boundaries = whole.inputs[1];
  Value above = whole.op.attrs.flag("right") ? ops::greaterEqual(b, x, boundaries)
                                             : ops::greater(b, x, boundaries);
  if (isFloat(b.dtype(x))) {
    above = ops::logicalOr(b, above, ops::isNan(b, x));
  }
  return {ops::reduceSum(b, ops::cast(b, above, DType::I64), {-1})};
}

/// One of the offsets, as a number of 64 bits.
Value offsetAt(ir::GraphBuilder& b, Value offsets, std::size_t i) {
  const Value flat = ops::reshape(b, offsets, Shape{b.shape(offsets).elements()});
  const auto at = static_cast<std::int64_t>(i);
  const Value one = ops::slice(b, flat, {at}, {at + 1});
  return ops::cast(b, ops::reshape(b, one, Shape{}), DType::I64);
}

std::vector<Value> dynamicSliceParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Ints& axes = whole.op.attrs.integers("axes");
  const Ints& sizes = whole.op.attrs.integers("sizes");
  Value block = whole.inputs[0];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Value steps = ops::iota(b, {DType::I64, Shape{sizes[i]}});
    const Value indices = ops::add(b, offsetAt(b, whole.inputs[1], i), steps);
    block = ops::gather(b, block, indices, axes[i]);
  }
  return {block};
}

/// Along each axis every place of the whole reads the block at its distance from the offset; what
/// lies outside of the block stays.
std::vector<Value> dynamicUpdateParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Shape& shape = whole.op.inputs[0].shape;
  const Ints& axes = whole.op.attrs.integers("axes");
  Value block = whole.inputs[2];
  if (b.shape(block).elements() == 0) {
    return {ops::identity(b, whole.inputs[0])};
  }
  Value inside;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = normalizeAxis(axes[i], shape.rank());
    const auto size = static_cast<double>(b.shape(block)[axis]);
    const Value places = ops::iota(b, {DType::I64, Shape{shape[axis]}});
    const Value distance = ops::sub(b, places, offsetAt(b, whole.inputs[1], i));
    const Value nearest = ops::clamp(b, distance, 0.0, size - 1.0);
    Ints dims(shape.dims().size(), 1);
    dims[static_cast<std::size_t>(axis)] = shape[axis];
    const Value hit = ops::reshape(b, ops::equal(b, distance, nearest), Shape(std::move(dims)));
    inside = inside.valid() ? ops::logicalAnd(b, inside, hit) : hit;
    block = ops::gather(b, block, nearest, axis);
  }
  return {inside.valid() ? ops::where(b, inside, block, whole.inputs[0]) : block};
}

void writeCumSum(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"CumSum",
                  {writer.operands(op)[0],
                   writer.constant(HostTensor::scalar<std::int64_t>(op.attrs.integer("axis")))},
                  {{"exclusive", op.attrs.flag("exclusive") ? 1 : 0},
                   {"reverse", op.attrs.flag("reverse") ? 1 : 0}}});
}

void writeGatherNd(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op, {"GatherND", writer.operands(op), {{"batch_dims", op.attrs.integer("batchDims")}}});
}

void writeOneHot(ModelWriter& writer, const ir::Op& op) {
  HostTensor values(op.outputs[0].dtype, Shape{2});
  values.set(1, 1.0);
  writer.addNode(op,
                 {"OneHot",
                  {writer.operands(op)[0],
                   writer.constant(HostTensor::scalar<std::int64_t>(op.attrs.integer("depth"))),
                   writer.constant(values)},
                  {{"axis", op.attrs.integer("axis")}}});
}

void writeReverseSequence(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"ReverseSequence",
                  writer.operands(op),
                  {{"batch_axis", op.attrs.integer("batchAxis")},
                   {"time_axis", op.attrs.integer("timeAxis")}}});
}

/// Each index is spread over the row that is added to, so that there is one for every element.
std::vector<Value> scatterAddParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Shape& shape = whole.op.inputs[0].shape;
  const std::int64_t axis = normalizeAxis(whole.op.integer("axis"), shape.rank());
  const std::int64_t count = whole.op.inputs[1].shape.elements();
  Ints rows = shape.dims();
  rows[static_cast<std::size_t>(axis)] = count;
  Ints line(rows.size(), 1);
  line[static_cast<std::size_t>(axis)] = count;
  const Shape updates(std::move(rows));
  const Value indices =
      ops::broadcastTo(b, ops::reshape(b, whole.inputs[1], Shape(std::move(line))), updates);
  return {whole.rounded(ops::scatterElements(
      b, whole.wide(0), indices, ops::reshape(b, whole.wide(2), updates), axis, "add"))};
}

/// The standard's reductions before opset 18 are these.
bool isStandardReduction(const ir::Op& op) {
  const std::string& reduction = op.attrs.text("reduction");
  return reduction == "none" || reduction == "add" || reduction == "mul";
}

void writeScatterElements(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"ScatterElements",
                  writer.operands(op),
                  {{"axis", op.attrs.integer("axis")}, {"reduction", op.attrs.text("reduction")}}});
}

Fit fitScatterElements(const UsedGraph& /*graph*/, const ir::Op& op) {
  return isStandardReduction(op) ? Fit::Same : Fit::None;
}

void writeScatterNd(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"ScatterND", writer.operands(op), {{"reduction", op.attrs.text("reduction")}}});
}

Fit fitScatterNd(const UsedGraph& /*graph*/, const ir::Op& op) {
  return isStandardReduction(op) && op.attrs.integer("batchDims") == 0 ? Fit::Same : Fit::None;
}

/// Axes of batches become numbers at the front of every index. None for reductions that stay
/// without a form.
std::vector<Value> scatterNdParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const std::int64_t batchDims = whole.op.integer("batchDims");
  if (batchDims == 0) {
    return {};
  }
  const TensorType& type = whole.op.inputs[1];
  Ints dims = type.shape.dims();
  dims.back() = 1;
  std::vector<Value> numbers;
  for (std::int64_t axis = 0; axis < batchDims; ++axis) {
    numbers.push_back(ops::iota(b, {type.dtype, Shape(dims)}, axis));
  }
  numbers.push_back(whole.inputs[1]);
  const Value indices = ops::concat(b, std::move(numbers), -1);
  return {ops::scatterNd(
      b, whole.inputs[0], indices, whole.inputs[2], whole.op.attrs.text("reduction"))};
}

/// For every row the last run that covers it, and the row's distance from the run's first one.
std::vector<Value> sequenceRowsParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const TensorType& type = whole.op.outputs[0];
  const std::int64_t runs = whole.op.inputs[0].shape[0];
  if (runs == 0) {
    return {ops::full(b, type, -1.0)};
  }
  const auto list = [&](std::size_t i) { return ops::cast(b, whole.inputs[i], DType::I64); };
  const auto column = [&](Value x) { return ops::reshape(b, x, Shape{runs, 1}); };
  const Value rows = ops::iota(b, type);
  const Value first = list(2);
  const Value begun = ops::greaterEqual(b, rows, column(first));
  const Value open = ops::less(b, rows, column(ops::add(b, first, list(0))));
  const Value none = b.scalar(DType::I64, -1.0);
  const Value covering = ops::where(
      b, ops::logicalAnd(b, begun, open), column(ops::iota(b, {DType::I64, Shape{runs}})), none);
  const Value last = ops::reduceMax(b, covering, {0});
  const Value zero = b.scalar(DType::I64, 0.0);
  const Value shift = ops::gather(b, ops::sub(b, list(1), first), ops::maximum(b, last, zero));
  return {ops::where(b, ops::less(b, last, zero), none, ops::add(b, rows, shift))};
}

void writeTopK(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(
      op,
      {"TopK",
       {writer.operands(op)[0], writer.integers({op.attrs.integer("k")})},
       {{"axis", op.attrs.integer("axis")}, {"largest", op.attrs.flag("largest") ? 1 : 0}}});
}

constexpr std::array kIndexingForms = {
    StandardForm{"argmax", writeArgMax},
    StandardForm{.op = "bucketize", .parts = bucketizeParts},
    StandardForm{"cumsum", writeCumSum},
    StandardForm{.op = "dynamic_slice", .parts = dynamicSliceParts},
    StandardForm{.op = "dynamic_update", .parts = dynamicUpdateParts},
    StandardForm{"gather_nd", writeGatherNd},
    StandardForm{"one_hot", writeOneHot},
    StandardForm{"reverse_sequence", writeReverseSequence},
    StandardForm{.op = "scatter_add", .parts = scatterAddParts},
    StandardForm{"scatter_elements", writeScatterElements, fitScatterElements},
    StandardForm{"scatter_nd", writeScatterNd, fitScatterNd, scatterNdParts},
    StandardForm{.op = "sequence_rows", .parts = sequenceRowsParts},
    StandardForm{"top_k", writeTopK},
};

}  // namespace

std::span<const StandardForm> indexingForms() {
  return kIndexingForms;
}

}  // namespace sluice::onnx
