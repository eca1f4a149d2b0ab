// Builder functions that are compositions of ops and no ops of their own.
#include "sluice/base/error.h"
#include "sluice/ops/ops.h"

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
