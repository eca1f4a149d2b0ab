// Builder functions that are compositions of ops and no ops of their own.
#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

/// Marks the axes, which may be negative; throws InvalidArgument.
std::vector<bool> marked(std::string_view what,
                         const std::vector<std::int64_t>& axes,
                         std::size_t rank) {
  std::vector<bool> marks(rank, false);
  for (const std::int64_t axis : axes) {
    const auto count = static_cast<std::int64_t>(rank);
    const std::int64_t i = axis < 0 ? axis + count : axis;
    if (i < 0 || i >= count || marks[static_cast<std::size_t>(i)]) {
      raise<InvalidArgument>(
          "{}: axis {} is out of range for rank {} or given twice", what, axis, rank);
    }
    marks[static_cast<std::size_t>(i)] = true;
  }
  return marks;
}

}  // namespace

Value argMin(GraphBuilder& b, Value x, std::int64_t axis, bool keepDims) {
  const DType dtype = b.dtype(x);
  // The order is turned round without overflow: -x, or every bit of an integer inverted.
  Value turned;
  if (isFloat(dtype)) {
    turned = neg(b, x);
  } else if (isSigned(dtype)) {
    turned = sub(b, b.scalar(dtype, -1.0), x);
  } else {
    turned = sub(b, sub(b, b.scalar(dtype, 0.0), x), b.scalar(dtype, 1.0));
  }
  return argMax(b, turned, axis, keepDims);
}

Value depthToSpace(GraphBuilder& b, Value x, std::int64_t blockSize, bool depthFirst) {
  const Shape shape = b.shape(x);
  if (shape.rank() != 4 || blockSize < 1 || shape[1] % blockSize != 0 ||
      shape[1] / blockSize % blockSize != 0) {
    raise<InvalidArgument>(
        "depthToSpace: blocks of {} cannot be made of {}", blockSize, shape.str());
  }
  const std::int64_t depth = shape[1] / blockSize / blockSize;
  const Shape apart = depthFirst ? Shape{shape[0], blockSize, blockSize, depth, shape[2], shape[3]}
                                 : Shape{shape[0], depth, blockSize, blockSize, shape[2], shape[3]};
  const std::vector<std::int64_t> order = depthFirst ? std::vector<std::int64_t>{0, 3, 4, 1, 5, 2}
                                                     : std::vector<std::int64_t>{0, 1, 4, 2, 5, 3};
  return reshape(b,
                 transpose(b, reshape(b, x, apart), order),
                 Shape{shape[0], depth, shape[2] * blockSize, shape[3] * blockSize});
}

Value spaceToDepth(GraphBuilder& b, Value x, std::int64_t blockSize) {
  const Shape shape = b.shape(x);
  if (shape.rank() != 4 || blockSize < 1 || shape[2] % blockSize != 0 ||
      shape[3] % blockSize != 0) {
    raise<InvalidArgument>("spaceToDepth: {} has no blocks of {}", shape.str(), blockSize);
  }
  const std::int64_t rows = shape[2] / blockSize;
  const std::int64_t columns = shape[3] / blockSize;
  const Shape apart{shape[0], shape[1], rows, blockSize, columns, blockSize};
  return reshape(b,
                 transpose(b, reshape(b, x, apart), {0, 3, 5, 1, 2, 4}),
                 Shape{shape[0], shape[1] * blockSize * blockSize, rows, columns});
}

Value flatten(GraphBuilder& b, Value x, std::int64_t first, std::int64_t last) {
  const Shape shape = b.shape(x);
  if (shape.rank() == 0) {
    return reshape(b, x, Shape{1});
  }
  first = normalizeAxis(first, shape.rank());
  last = normalizeAxis(last, shape.rank());
  if (first > last) {
    raise<InvalidArgument>("flatten: axis {} comes after axis {}", first, last);
  }
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().begin() + first + 1);
  for (std::int64_t i = first + 1; i < shape.rank(); ++i) {
    if (i <= last) {
      dims.back() *= shape[i];
    } else {
      dims.push_back(shape[i]);
    }
  }
  return reshape(b, x, Shape(std::move(dims)));
}

Value full(GraphBuilder& b, const TensorType& type, double value) {
  const Shape shape = type.shape;
  return broadcastTo(b, b.scalar(type.dtype, value), shape);
}

Value mean(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims) {
  return reduceMean(b, x, std::move(axes), keepDims);
}

Value squeeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes) {
  const Shape shape = b.shape(x);
  const std::vector<bool> dropped = marked("squeeze", axes, shape.dims().size());
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    const std::int64_t extent = shape.dims()[i];
    if (dropped[i] && extent != 1) {
      raise<InvalidArgument>(
          "squeeze: axis {} of {} has the extent {}, not 1", i, shape.str(), extent);
    }
    if (!dropped[i] && (extent != 1 || !axes.empty())) {
      dims.push_back(extent);
    }
  }
  return reshape(b, x, Shape(std::move(dims)));
}

Value unsqueeze(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes) {
  const Shape shape = b.shape(x);
  std::vector<std::int64_t> dims;
  std::size_t next = 0;
  for (const bool added : marked("unsqueeze", axes, shape.dims().size() + axes.size())) {
    dims.push_back(added ? 1 : shape.dims()[next++]);
  }
  return reshape(b, x, Shape(std::move(dims)));
}

Value variance(GraphBuilder& b, Value x, std::vector<std::int64_t> axes, bool keepDims) {
  const Value centred = sub(b, x, reduceMean(b, x, axes, true));
  return reduceMean(b, square(b, centred), std::move(axes), keepDims);
}

}  // namespace sluice::ops
