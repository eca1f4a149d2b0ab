// Forms of ops that move elements, change types or only tell something about a value.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "sluice/onnx/identity_marks.h"
#include "sluice/onnx/model_writer.h"
#include "sluice/onnx/node.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/slice.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

void writeCast(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op, {"Cast", writer.operands(op), {{"to", onnxTypeOf(op.outputs[0].dtype)}}});
}

void writeReshape(ModelWriter& writer, const ir::Op& op) {
  const Ints& dims = op.outputs[0].shape.dims();
  std::vector<ir::NamedAttr> attrs;
  if (std::ranges::find(dims, 0) != dims.end()) {
    attrs.emplace_back("allowzero", 1);
  }
  writer.addNode(op, {"Reshape", {writer.operands(op)[0], writer.integers(dims)}, attrs});
}

void writeExpand(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Expand", {writer.operands(op)[0], writer.integers(op.outputs[0].shape.dims())}});
}

void writeTranspose(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Transpose", writer.operands(op), {{"perm", op.attrs.integers("permutation")}}});
}

/// The importer hands transpositions on to the products that read them.
Fit fitTranspose(const UsedGraph& graph, const ir::Op& op) {
  return graph.isReadBy(op.out(), ops::kMatMul) ? Fit::Values : Fit::Same;
}

void writeSlice(ModelWriter& writer, const ir::Op& op) {
  const Ints& starts = op.attrs.integers("starts");
  const Ints& steps = op.attrs.integers("steps");
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  NewNode node{"Slice",
               {writer.operands(op)[0],
                writer.integers(starts),
                writer.integers(op.attrs.integers("ends")),
                writer.integers(axes)}};
  if (!steps.empty()) {
    node.inputs.push_back(writer.integers(steps));
  }
  writer.addNode(op, std::move(node));
}

/// The importer always gives steps.
Fit fitSlice(const UsedGraph& /*graph*/, const ir::Op& op) {
  return op.attrs.integers("steps").size() == op.attrs.integers("starts").size() ? Fit::Same
                                                                                 : Fit::Values;
}

void writeSplit(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Split",
                  {writer.operands(op)[0], writer.integers(op.attrs.integers("sizes"))},
                  {{"axis", op.attrs.integer("axis")}}});
}

Fit fitSplit(const UsedGraph& /*graph*/, const ir::Op& op) {
  return op.attrs.integer("axis") < 0 ? Fit::Values : Fit::Same;
}

void writeTile(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Tile", {writer.operands(op)[0], writer.integers(op.attrs.integers("repeats"))}});
}

HostTensor padValue(const ir::Op& op) {
  return HostTensor::full({op.outputs[0].dtype, Shape{}}, op.attrs.real("value"));
}

void writePad(ModelWriter& writer, const ir::Op& op) {
  Ints pads = op.attrs.integers("before");
  const Ints& after = op.attrs.integers("after");
  pads.insert(pads.end(), after.begin(), after.end());
  writer.addNode(op,
                 {"Pad",
                  {writer.operands(op)[0], writer.integers(pads), writer.constant(padValue(op))},
                  {{"mode", op.attrs.text("mode")}}});
}

Fit fitPad(const UsedGraph& /*graph*/, const ir::Op& op) {
  return padValue(op).at(0) == op.attrs.real("value") ? Fit::Same : Fit::Values;
}

void writeTrilu(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Trilu",
                  {writer.operands(op)[0],
                   writer.constant(HostTensor::scalar<std::int64_t>(op.attrs.integer("diagonal")))},
                  {{"upper", op.attrs.flag("upper") ? 1 : 0}}});
}

/// A range along one axis, spread over the others.
void writeIota(ModelWriter& writer, const ir::Op& op) {
  const TensorType& type = op.outputs[0];
  const std::int64_t axis = normalizeAxis(op.attrs.integer("axis"), type.shape.rank());
  const auto number = [&](std::int64_t value) {
    return writer.constant(HostTensor::scalar<std::int64_t>(value));
  };
  std::string line =
      writer.addHelper({"Range", {number(0), number(type.shape[axis]), number(1)}}, DType::I64);
  if (type.dtype != DType::I64) {
    line = writer.addHelper({"Cast", {line}, {{"to", onnxTypeOf(type.dtype)}}}, type.dtype);
  }
  Ints dims(type.shape.dims().size(), 1);
  dims[static_cast<std::size_t>(axis)] = type.shape[axis];
  NewNode reshaped{"Reshape", {line, writer.integers(dims)}};
  if (type.shape[axis] == 0) {
    reshaped.attrs.emplace_back("allowzero", 1);
  }
  line = writer.addHelper(std::move(reshaped));
  writer.addNode(op, {"Expand", {line, writer.integers(type.shape.dims())}});
}

Fit fitIota(const UsedGraph& /*graph*/, const ir::Op& /*op*/) {
  return Fit::Values;
}

void writeMarked(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op, {"Identity", writer.operands(op), {}, 0, std::string(markOf(op))});
}

std::vector<Value> reverseParts(const Whole& whole) {
  const Shape& shape = whole.op.inputs[0].shape;
  if (shape.elements() == 0) {  // of which a step back would take one
    return {ops::identity(whole.b, whole.inputs[0])};
  }
  const std::vector<bool> reversed = ops::reducedAxes(whole.op);
  Ints starts(reversed.size(), 0);
  Ints ends = shape.dims();
  Ints steps(reversed.size(), 1);
  for (std::size_t i = 0; i < reversed.size(); ++i) {
    if (reversed[i]) {
      starts[i] = -1;
      ends[i] = std::numeric_limits<std::int64_t>::min();
      steps[i] = -1;
    }
  }
  return {
      ops::slice(whole.b, whole.inputs[0], std::move(starts), std::move(ends), std::move(steps))};
}

/// Which element of the slice lies at each place of an axis of the whole; behind the last one where
/// none does.
Ints slicePlaces(const ops::SliceAxis& axis, std::int64_t extent) {
  Ints places(static_cast<std::size_t>(extent), axis.count);
  for (std::int64_t i = 0; i < axis.count; ++i) {
    places[static_cast<std::size_t>(axis.start + i * axis.step)] = i;
  }
  return places;
}

/// Each axis gets a zero behind its last element, which all places read that the slice leaves out.
std::vector<Value> sliceScatterParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const TensorType& type = whole.op.outputs[0];
  const std::vector<ops::SliceAxis> axes = ops::sliceAxes(whole.op, type.shape);
  Value y = whole.inputs[0];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Ints after(axes.size(), 0);
    after[i] = 1;
    const Ints places = slicePlaces(axes[i], type.shape.dims()[i]);
    const Value padded = ops::pad(b, y, Ints(axes.size(), 0), std::move(after));
    const Value indices = b.constant(HostTensor::of<std::int64_t>(
        Shape{type.shape.dims()[i]}, std::span<const std::int64_t>(places)));
    y = ops::gather(b, padded, indices, static_cast<std::int64_t>(i));
  }
  return {y};
}

constexpr std::array kShapeForms = {
    StandardForm{"broadcast_to", writeExpand},
    StandardForm{"cast", writeCast},
    StandardForm{"detach", writeMarked},
    StandardForm{"iota", writeIota, fitIota},
    StandardForm{"nop", writeMarked},
    StandardForm{"pad", writePad, fitPad},
    StandardForm{"recomputation_checkpoint", writeMarked},
    StandardForm{"reshape", writeReshape},
    StandardForm{.op = "reverse", .parts = reverseParts},
    StandardForm{"slice", writeSlice, fitSlice},
    StandardForm{.op = "slice_scatter", .parts = sliceScatterParts},
    StandardForm{"split", writeSplit, fitSplit},
    StandardForm{"tensor_location", writeMarked},
    StandardForm{"tile", writeTile},
    StandardForm{"transpose", writeTranspose, fitTranspose},
    StandardForm{"trilu", writeTrilu},
};

}  // namespace

std::span<const StandardForm> shapeForms() {
  return kShapeForms;
}

}  // namespace sluice::onnx
