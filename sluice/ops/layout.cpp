#include "sluice/ops/layout.h"

#include <cstring>

#include "sluice/base/error.h"

namespace sluice::ops {

std::int64_t axisAttr(const ir::OpView& op, const Shape& shape) {
  const std::int64_t axis = op.attrs.integer("axis");
  if (axis < -shape.rank() || axis >= shape.rank()) {
    raise<InvalidArgument>(
        "{}: axis {} is out of range for shape {}", op.def.name, axis, shape.str());
  }
  return axis < 0 ? axis + shape.rank() : axis;
}

AxisView aroundAxis(const Shape& shape, std::int64_t axis) {
  AxisView view;
  for (std::int64_t i = 0; i < shape.rank(); ++i) {
    (i < axis ? view.outer : (i == axis ? view.extent : view.inner)) *= shape[i];
  }
  return view;
}

Shape withExtent(const Shape& shape, std::int64_t axis, std::int64_t extent) {
  std::vector<std::int64_t> dims = shape.dims();
  dims[static_cast<std::size_t>(axis)] = extent;
  return Shape(std::move(dims));
}

const std::vector<std::int64_t>& perAxisAttr(const ir::OpView& op,
                                             std::string_view attr,
                                             std::int64_t rank) {
  const std::vector<std::int64_t>& items = op.attrs.integers(attr);
  if (static_cast<std::int64_t>(items.size()) != rank) {
    raise<InvalidArgument>("{}: {} must have one item for each of the {} axes, got {}",
                           op.def.name,
                           attr,
                           rank,
                           items.size());
  }
  return items;
}

void requireIndices(const ir::OpView& op, std::size_t input) {
  const DType dtype = op.inputs[input].dtype;
  if (dtype != DType::I32 && dtype != DType::I64) {
    raise<InvalidArgument>("{}: input {} holds indices and must be of i32 or i64, got {}",
                           op.def.name,
                           input,
                           op.inputs[input].str());
  }
}

std::vector<std::int64_t> readIndices(const ir::KernelArgs& args,
                                      std::size_t input,
                                      std::int64_t extent) {
  std::vector<std::int64_t> indices;
  if (args.op.inputs[input].dtype == DType::I32) {
    const auto in = args.in<std::int32_t>(input);
    indices.assign(in.begin(), in.end());
  } else {
    const auto in = args.in<std::int64_t>(input);
    indices.assign(in.begin(), in.end());
  }
  for (std::int64_t& index : indices) {
    if (index < -extent || index >= extent) {
      raise<InvalidArgument>(
          "{}: index {} is out of range for an axis of extent {}", args.op.def.name, index, extent);
    }
    index += index < 0 ? extent : 0;
  }
  return indices;
}

AxisMap::AxisMap(const Shape& from, std::vector<std::vector<std::int64_t>> coordinates)
    : coordinates_(std::move(coordinates)), strides_(from.strides()) {}

std::int64_t AxisMap::operator()(std::int64_t element) const {
  std::int64_t index = 0;
  for (std::size_t axis = coordinates_.size(); axis-- > 0;) {
    const auto extent = static_cast<std::int64_t>(coordinates_[axis].size());
    const std::int64_t at = coordinates_[axis][static_cast<std::size_t>(element % extent)];
    if (at < 0) {
      return -1;
    }
    element /= extent;
    index += at * strides_[axis];
  }
  return index;
}

Shape AxisMap::shape() const {
  std::vector<std::int64_t> dims;
  for (const std::vector<std::int64_t>& list : coordinates_) {
    dims.push_back(static_cast<std::int64_t>(list.size()));
  }
  return Shape(std::move(dims));
}

void copyMapped(const ir::KernelArgs& args, const AxisMap& map) {
  const std::size_t size = byteSize(args.op.outputs[0].dtype);
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  for (std::int64_t i = 0; i < args.op.outputs[0].shape.elements(); ++i) {
    std::memcpy(out + static_cast<std::size_t>(i) * size,
                in + static_cast<std::size_t>(map(i)) * size,
                size);
  }
}

void placeMapped(const ir::KernelArgs& args, const AxisMap& map) {
  const std::size_t size = byteSize(args.op.outputs[0].dtype);
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  if (args.op.outputs[0].bytes() != 0) {
    std::memset(out, 0, args.op.outputs[0].bytes());
  }
  for (std::int64_t i = 0; i < args.op.inputs[0].shape.elements(); ++i) {
    std::memcpy(out + static_cast<std::size_t>(map(i)) * size,
                in + static_cast<std::size_t>(i) * size,
                size);
  }
}

ir::Cost costOfMove(const ir::OpView& op) {
  const auto moved = static_cast<double>(op.outputs[0].bytes());
  ir::Cost cost{.bytesRead = moved, .bytesWritten = moved};
  for (const TensorType& type : op.inputs.subspan(1)) {
    cost.bytesRead += static_cast<double>(type.bytes());
  }
  return cost;
}

}  // namespace sluice::ops
