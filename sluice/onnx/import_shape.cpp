// Translations of ops that only move elements or tell shapes. What fixes a shape must be known when
// the model is imported; Shape and Size are constants, since shapes are static.
#include <algorithm>
#include <array>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/onnx/deciding.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

HostTensor i64(const Ints& numbers) {
  return HostTensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(numbers.size())},
                                      std::span<const std::int64_t>(numbers));
}

std::vector<Value> constant(Node& node) {
  for (const ir::NamedAttr& attr : node.attrs()) {
    if (const auto* tensor = std::get_if<HostTensor>(&attr.value)) {
      return {node.b.constant(*tensor)};
    }
    if (const auto* number = std::get_if<double>(&attr.value)) {
      return {node.b.constant(HostTensor::scalar(static_cast<float>(*number)))};
    }
    if (const auto* number = std::get_if<std::int64_t>(&attr.value)) {
      return {node.b.constant(HostTensor::scalar(*number))};
    }
    if (const auto* numbers = std::get_if<Ints>(&attr.value)) {
      return {node.b.constant(i64(*numbers))};
    }
    if (const auto* numbers = std::get_if<std::vector<double>>(&attr.value)) {
      const std::vector<float> narrow(numbers->begin(), numbers->end());
      return {node.b.constant(HostTensor::of<float>(Shape{static_cast<std::int64_t>(narrow.size())},
                                                    std::span<const float>(narrow)))};
    }
  }
  node.unsupported("the constant has no value of numbers");
}

std::vector<Value> constantOfShape(Node& node) {
  const ir::Attr* attr = node.find("value");
  const HostTensor value = attr == nullptr ? HostTensor::scalar(0.0F) : std::get<HostTensor>(*attr);
  if (value.shape().elements() != 1) {
    raise<InvalidArgument>("value must be one number, got {}", value.type().str());
  }
  return {ops::broadcastTo(
      node.b, node.b.constant(value.reshaped(Shape{})), Shape(node.integersOf(0)))};
}

std::vector<Value> shapeOf(Node& node) {
  const Shape& shape = node.shape(0);
  const auto clampAxis = [&](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + shape.rank() : axis, 0, shape.rank());
  };
  const std::int64_t start = clampAxis(node.integer("start", 0));
  const std::int64_t end = clampAxis(node.integer("end", shape.rank()));
  Ints dims;
  for (std::int64_t axis = start; axis < end; ++axis) {
    dims.push_back(shape[axis]);
  }
  return {node.b.constant(i64(dims))};
}

std::vector<Value> sizeOf(Node& node) {
  return {node.b.constant(HostTensor::scalar(node.shape(0).elements()))};
}

std::vector<Value> reshape(Node& node) {
  Ints dims = node.integersOf("shape", 1);
  const Shape& shape = node.shape(0);
  const bool allowZero = node.flag("allowzero");
  std::int64_t known = 1;
  std::ptrdiff_t open = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allowZero) {
      if (static_cast<std::int64_t>(i) >= shape.rank()) {
        raise<InvalidArgument>("dimension {} of the new shape is 0: {} has none", i, shape.str());
      }
      dims[i] = shape[static_cast<std::int64_t>(i)];
    }
    if (dims[i] == -1 && open < 0) {
      open = static_cast<std::ptrdiff_t>(i);
    } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      raise<InvalidArgument>("dimension {} of the new shape cannot be {}", i, dims[i]);
    }
  }
  if (open >= 0) {
    if (known == 0 || shape.elements() % known != 0) {
      raise<InvalidArgument>("the -1 of the new shape has no value for {}", shape.str());
    }
    dims[static_cast<std::size_t>(open)] = shape.elements() / known;
  }
  return {ops::reshape(node.b, node.input(0), Shape(std::move(dims)))};
}

std::vector<Value> expand(Node& node) {
  return {
      ops::broadcastTo(node.b, node.input(0), broadcast(node.shape(0), Shape(node.integersOf(1))))};
}

std::vector<Value> flatten(Node& node) {
  const Shape& shape = node.shape(0);
  std::int64_t axis = node.integer("axis", 1);
  axis = axis < 0 ? axis + shape.rank() : axis;
  if (axis < 0 || axis > shape.rank()) {
    raise<InvalidArgument>("axis {} is outside of {}", axis, shape.str());
  }
  Ints dims = {1, 1};
  for (std::int64_t i = 0; i < shape.rank(); ++i) {
    dims[i < axis ? 0 : 1] *= shape[i];
  }
  return {ops::reshape(node.b, node.input(0), Shape(std::move(dims)))};
}

std::vector<Value> squeeze(Node& node) {
  return {ops::squeeze(node.b, node.input(0), node.integersOf("axes", 1))};
}

std::vector<Value> unsqueeze(Node& node) {
  return {ops::unsqueeze(node.b, node.input(0), node.integersOf("axes", 1))};
}

std::vector<Value> transpose(Node& node) {
  return {ops::transpose(node.b, node.input(0), node.integers("perm"))};
}

std::vector<Value> concatTensors(Node& node) {
  std::vector<Value> parts;
  for (std::size_t i = 0; i < node.numInputs(); ++i) {
    parts.push_back(node.input(i));
  }
  return {ops::concat(node.b, std::move(parts), node.integer("axis", 1))};
}

std::vector<Value> split(Node& node) {
  const std::int64_t axis = normalizeAxis(node.integer("axis"), node.rank(0));
  Ints sizes = node.integersOf("split", 1);
  if (sizes.empty()) {
    const auto parts = static_cast<std::int64_t>(node.numOutputs());
    const std::int64_t extent = node.shape(0)[axis];
    if (parts == 0 || extent % parts != 0) {
      raise<InvalidArgument>("{} cannot be split into {} equal parts", extent, parts);
    }
    sizes.assign(static_cast<std::size_t>(parts), extent / parts);
  }
  return ops::split(node.b, node.input(0), axis, std::move(sizes));
}

std::vector<Value> slice(Node& node) {
  const Shape& shape = node.shape(0);
  const auto rank = static_cast<std::size_t>(shape.rank());
  const Ints starts = node.integersOf("starts", 1);
  const Ints ends = node.integersOf("ends", 2);
  Ints axes = node.integersOf("axes", 3);
  Ints steps = node.has(4) ? node.integersOf(4) : Ints(starts.size(), 1);
  for (std::size_t i = axes.size(); i < starts.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    raise<InvalidArgument>("starts, ends, axes and steps must be as many: {}, {}, {}, {}",
                           starts.size(),
                           ends.size(),
                           axes.size(),
                           steps.size());
  }
  Ints allStarts(rank, 0);
  Ints allEnds = shape.dims();
  Ints allSteps(rank, 1);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(normalizeAxis(axes[i], shape.rank()));
    allStarts[axis] = starts[i];
    allEnds[axis] = ends[i];
    allSteps[axis] = steps[i];
  }
  return {ops::slice(
      node.b, node.input(0), std::move(allStarts), std::move(allEnds), std::move(allSteps))};
}

std::vector<Value> tile(Node& node) {
  if (node.version() >= 6) {
    return {ops::tile(node.b, node.input(0), node.integersOf(1))};
  }
  // One axis only, both as operands of the data's type.
  Ints repeats(node.shape(0).dims().size(), 1);
  const std::int64_t axis = normalizeAxis(wholeOperand(node, 2), node.rank(0));
  repeats[static_cast<std::size_t>(axis)] = wholeOperand(node, 1);
  return {ops::tile(node.b, node.input(0), std::move(repeats))};
}

struct Padding {
  Ints before;
  Ints after;
};

/// Negative pads cut elements off; what is left to add is returned.
Padding cutNegative(Node& node, Value& x, const Ints& pads) {
  const Shape shape = node.b.shape(x);
  const auto rank = static_cast<std::size_t>(shape.rank());
  Padding padding{.before = Ints(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank)),
                  .after = Ints(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end())};
  Ints starts(rank, 0);
  Ints ends = shape.dims();
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t front = std::min<std::int64_t>(padding.before[i], 0);
    const std::int64_t back = std::min<std::int64_t>(padding.after[i], 0);
    if (front < -ends[i] || back < -ends[i] || ends[i] + front + back < 0) {
      raise<InvalidArgument>(
          "pads {} and {} of axis {} cut more than {} has", front, back, i, shape.str());
    }
    starts[i] = -front;
    ends[i] += back;
    padding.before[i] -= front;
    padding.after[i] -= back;
  }
  if (starts != Ints(rank, 0) || ends != shape.dims()) {
    x = ops::slice(node.b, x, std::move(starts), std::move(ends));
  }
  return padding;
}

/// True where padding is.
HostTensor paddingMask(const Shape& inner, const Shape& outer, const Ints& before) {
  HostTensor mask = HostTensor::full({DType::Bool, outer}, 0.0);
  const auto out = mask.data<bool>();
  const Ints strides = outer.strides();
  for (std::int64_t axis = 0; axis < outer.rank(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    for (std::int64_t i = 0; i < outer.elements(); ++i) {
      const std::int64_t at = i / strides[a] % outer[axis] - before[a];
      if (at < 0 || at >= inner[axis]) {
        out[static_cast<std::size_t>(i)] = true;
      }
    }
  }
  return mask;
}

std::vector<Value> pad(Node& node) {
  const Ints pads = node.integersOf(node.version() == 1 ? "paddings" : "pads", 1);
  const auto rank = static_cast<std::size_t>(node.rank(0));
  if (pads.size() != 2 * rank) {
    raise<InvalidArgument>(
        "expected {} pads for {}, got {}", 2 * rank, node.shape(0).str(), pads.size());
  }
  Value x = node.input(0);
  Padding padding = cutNegative(node, x, pads);
  const Shape inner = node.b.shape(x);
  const std::string mode = node.text("mode", "constant");
  const bool computed = mode == "constant" && node.has(2) && !node.isConstant(2);
  const double value = computed ? 0.0 : node.has(2) ? node.realOf(2, 0.0) : node.real("value", 0.0);
  const Ints before = padding.before;
  const Value padded =
      ops::pad(node.b, x, std::move(padding.before), std::move(padding.after), mode, value);
  if (!computed) {
    return {padded};
  }
  if (node.shape(2).elements() != 1) {
    raise<InvalidArgument>("the value must be one number, got {}", node.type(2).str());
  }
  const HostTensor mask = paddingMask(inner, node.b.shape(padded), before);
  const Value fill = ops::reshape(node.b, node.input(2), Shape{});
  return {ops::where(node.b, node.b.constant(mask), fill, padded)};
}

constexpr std::array kShapeTranslations = {
    Translation{"Concat", concatTensors},
    Translation{"Constant", constant},
    Translation{"ConstantOfShape", constantOfShape},
    Translation{"Expand", expand},
    Translation{"Flatten", flatten},
    Translation{"Pad", pad},
    Translation{"Reshape", reshape},
    Translation{"Shape", shapeOf},
    Translation{"Size", sizeOf},
    Translation{"Slice", slice},
    Translation{"Split", split},
    Translation{"Squeeze", squeeze},
    Translation{"Tile", tile},
    Translation{"Transpose", transpose},
    Translation{"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const Translation> shapeTranslations() {
  return kShapeTranslations;
}

}  // namespace sluice::onnx
