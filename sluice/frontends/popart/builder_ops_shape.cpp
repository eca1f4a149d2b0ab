// AiOnnx: ops that only move elements or tell shapes.
#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
#include "sluice/ops/shape_ops.h"

namespace sluice {
namespace {

/// ONNX's target shape made explicit: 0 keeps an extent, one -1 takes what remains.
Shape reshapeTarget(const Shape& from, std::vector<std::int64_t> dims) {
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && static_cast<std::int64_t>(i) < from.rank()) {
      dims[i] = from[static_cast<std::int64_t>(i)];
    }
    if (dims[i] != -1) {
      known *= dims[i];
    } else if (open == nullptr) {
      open = &dims[i];
    } else {
      raise<InvalidArgument>("reshape: only one extent of the target may be -1");
    }
  }
  if (open != nullptr) {
    if (known <= 0 || from.elements() % known != 0) {
      raise<InvalidArgument>(
          "reshape: {} has no whole number of parts of {} elements", from.str(), known);
    }
    *open = from.elements() / known;
  }
  return Shape(std::move(dims));
}

}  // namespace

TensorId AiOnnx::concat(const std::vector<TensorId>& parts, std::int64_t axis) {
  return b_.make("Concat", [&] {
    std::vector<ir::Value> values;
    values.reserve(parts.size());
    for (const TensorId& part : parts) {
      values.push_back(b_.value(part));
    }
    return ops::concat(b_.b_, std::move(values), axis);
  });
}

TensorId AiOnnx::constant(const HostTensor& value) {
  return b_.make("Constant", [&] { return b_.b_.constant(value.clone()); });
}

TensorId AiOnnx::constantofshape(const Ints& shape, const HostTensor& value) {
  return one("ConstantOfShape", {shape}, {{"value", value.reshaped(Shape{1})}});
}

TensorId AiOnnx::depthtospace(const TensorId& x, std::int64_t blocksize, std::string_view mode) {
  return one("DepthToSpace", {x}, {{"blocksize", blocksize}, {"mode", mode}});
}

TensorId AiOnnx::expand(const TensorId& x, const Ints& shape) {
  return one("Expand", {x, shape});
}

TensorId AiOnnx::eyelike(const TensorId& x, std::int64_t k, std::optional<DType> dtype) {
  return one("EyeLike", {x}, withType(dtype, {{"k", k}}));
}

TensorId AiOnnx::flatten(const TensorId& x, std::int64_t axis) {
  return b_.make("Flatten", [&] {
    const Shape& shape = b_.getTensorShape(x);
    const std::int64_t first = axis == shape.rank() ? axis : normalizeAxis(axis, shape.rank());
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    for (std::int64_t i = 0; i < shape.rank(); ++i) {
      (i < first ? rows : columns) *= shape[i];
    }
    return ops::reshape(b_.b_, b_.value(x), Shape{rows, columns});
  });
}

TensorId AiOnnx::pad(const TensorId& x, const Ints& pads, const PadOptions& options) {
  std::vector<OpOperand> inputs = {x, pads};
  if (options.mode == "constant") {
    inputs.emplace_back(HostTensor::full({b_.getTensorDtype(x), Shape{}}, options.value));
  }
  return one("Pad", inputs, {{"mode", options.mode}});
}

TensorId AiOnnx::reshape(const TensorId& x, const Ints& shape) {
  return b_.make("Reshape", [&] {
    return ops::reshape(b_.b_, b_.value(x), reshapeTarget(b_.getTensorShape(x), shape));
  });
}

TensorId AiOnnx::slice(const TensorId& x, const std::vector<SliceRange>& ranges) {
  return b_.make("Slice", [&] {
    const Shape& shape = b_.getTensorShape(x);
    Ints starts(static_cast<std::size_t>(shape.rank()), 0);
    Ints ends = shape.dims();
    Ints steps(starts.size(), 1);
    for (const SliceRange& range : ranges) {
      const auto axis = static_cast<std::size_t>(normalizeAxis(range.axis, shape.rank()));
      starts[axis] = range.start;
      ends[axis] = range.end;
      steps[axis] = range.step;
    }
    return ops::slice(b_.b_, b_.value(x), starts, ends, steps);
  });
}

TensorId AiOnnx::spacetodepth(const TensorId& x, std::int64_t blocksize) {
  return one("SpaceToDepth", {x}, {{"blocksize", blocksize}});
}

std::vector<TensorId> AiOnnx::split(const TensorId& x, const Ints& sizes, std::int64_t axis) {
  return b_.makeMany("Split", [&] { return ops::split(b_.b_, b_.value(x), axis, sizes); });
}

TensorId AiOnnx::squeeze(const TensorId& x, const Ints& axes) {
  return b_.make("Squeeze", [&] { return ops::squeeze(b_.b_, b_.value(x), axes); });
}

TensorId AiOnnx::tile(const TensorId& x, const Ints& repeats) {
  return one("Tile", {x, repeats});
}

TensorId AiOnnx::transpose(const TensorId& x, const Ints& perm) {
  return b_.make("Transpose", [&] { return ops::transpose(b_.b_, b_.value(x), perm); });
}

TensorId AiOnnx::unsqueeze(const TensorId& x, const Ints& axes) {
  return b_.make("Unsqueeze", [&] { return ops::unsqueeze(b_.b_, b_.value(x), axes); });
}

}  // namespace sluice
