// The reductions and shape functions of functional.h.
#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::nn {

using ir::GraphBuilder;
using ir::Value;

Tensor sum(const Tensor& given, std::vector<std::int64_t> axes, bool keepDims) {
  const Tensor x = operand("sum", given);
  GraphBuilder& b = x.builder();
  return {b, ops::reduceSum(b, x.value(), std::move(axes), keepDims)};
}

Tensor mean(const Tensor& given, std::vector<std::int64_t> axes, bool keepDims) {
  const Tensor x = operand("mean", given);
  GraphBuilder& b = x.builder();
  return {b, ops::reduceMean(b, x.value(), std::move(axes), keepDims)};
}

Tensor max(const Tensor& given, std::vector<std::int64_t> axes, bool keepDims) {
  const Tensor x = operand("max", given);
  GraphBuilder& b = x.builder();
  return {b, ops::reduceMax(b, x.value(), std::move(axes), keepDims)};
}

Tensor argMax(const Tensor& x, std::int64_t axis, bool keepDims) {
  GraphBuilder& b = x.builder();
  return {b, ops::argMax(b, x.value(), axis, keepDims)};
}

Tensor flatten(const Tensor& x, std::int64_t startAxis) {
  const Shape& shape = x.shape();
  if (shape.rank() == 0) {
    return reshape(x, {1});
  }
  const auto start = static_cast<std::ptrdiff_t>(normalizeAxis(startAxis, shape.rank()));
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().begin() + start);
  std::int64_t joined = 1;
  for (std::int64_t i = start; i < shape.rank(); ++i) {
    joined *= shape[i];
  }
  dims.push_back(joined);
  return reshape(x, std::move(dims));
}

Tensor reshape(const Tensor& x, std::vector<std::int64_t> dims) {
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& extent : dims) {
    if (extent != -1) {
      known *= extent;
    } else if (open == nullptr) {
      open = &extent;
    } else {
      raise<InvalidArgument>("reshape: only one extent may be -1");
    }
  }
  const std::int64_t elements = x.shape().elements();
  if (open != nullptr) {
    if (known <= 0 || elements % known != 0) {
      raise<InvalidArgument>(
          "reshape: {} cannot be cut into parts of {} elements", x.type().str(), known);
    }
    *open = elements / known;
  }
  GraphBuilder& b = x.builder();
  return {b, ops::reshape(b, x.value(), Shape(std::move(dims)))};
}

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1) {
  const std::int64_t rank = x.shape().rank();
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i] = static_cast<std::int64_t>(i);
  }
  std::swap(axes[static_cast<std::size_t>(normalizeAxis(axis0, rank))],
            axes[static_cast<std::size_t>(normalizeAxis(axis1, rank))]);
  return permute(x, std::move(axes));
}

Tensor permute(const Tensor& x, std::vector<std::int64_t> axes) {
  GraphBuilder& b = x.builder();
  return {b, ops::transpose(b, x.value(), std::move(axes))};
}

Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis) {
  if (parts.empty()) {
    raise<InvalidArgument>("concat: no tensors are given");
  }
  std::vector<Tensor> operands = parts;
  resolveTypes("cat", operands);
  std::vector<Value> values;
  for (const Tensor& part : operands) {
    part.builder();  // checks that it belongs here
    values.push_back(part.value());
  }
  GraphBuilder& b = parts.front().builder();
  return {b, ops::concat(b, std::move(values), axis)};
}

std::vector<Tensor> split(const Tensor& x, std::vector<std::int64_t> sizes, std::int64_t axis) {
  GraphBuilder& b = x.builder();
  std::vector<Tensor> parts;
  for (const Value value : ops::split(b, x.value(), axis, std::move(sizes))) {
    parts.emplace_back(b, value);
  }
  return parts;
}

Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end) {
  const Shape& shape = x.shape();
  const auto at = static_cast<std::size_t>(normalizeAxis(axis, shape.rank()));
  std::vector<std::int64_t> starts(static_cast<std::size_t>(shape.rank()), 0);
  std::vector<std::int64_t> ends = shape.dims();
  starts[at] = start;
  ends[at] = end;
  GraphBuilder& b = x.builder();
  return {b, ops::slice(b, x.value(), std::move(starts), std::move(ends))};
}

Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  GraphBuilder& b = x.builder();
  return {indices.builder(), ops::gather(b, x.value(), indices.value(), axis)};
}

Tensor embedding(const Tensor& indices, const Tensor& table) {
  return gather(operand("embedding", table), indices, 0);
}

}  // namespace sluice::nn
