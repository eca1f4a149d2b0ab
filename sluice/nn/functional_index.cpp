// Picking, placing and ordering: the functions of functional.h that index.
#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::nn {

using ir::GraphBuilder;
using ir::Value;

namespace {

Tensor scattered(const Tensor& target,
                 std::int64_t axis,
                 const Tensor& indices,
                 const Tensor& values,
                 std::string_view reduction) {
  const auto [x, source] = operands("scatter", target, values);
  GraphBuilder& b = x.builder();
  source.builder();  // checks that it belongs here
  return {indices.builder(),
          ops::scatterElements(b, x.value(), indices.value(), source.value(), axis, reduction)};
}

}  // namespace

Tensor slice(
    const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  const Shape& shape = x.shape();
  const auto at = static_cast<std::size_t>(normalizeAxis(axis, shape.rank()));
  std::vector<std::int64_t> starts(static_cast<std::size_t>(shape.rank()), 0);
  std::vector<std::int64_t> ends = shape.dims();
  std::vector<std::int64_t> steps;
  starts[at] = start;
  ends[at] = end;
  if (step != 1) {
    steps.assign(starts.size(), 1);
    steps[at] = step;
  }
  GraphBuilder& b = x.builder();
  return {b, ops::slice(b, x.value(), std::move(starts), std::move(ends), std::move(steps))};
}

Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  GraphBuilder& b = x.builder();
  return {indices.builder(), ops::gather(b, x.value(), indices.value(), axis)};
}

Tensor embedding(const Tensor& indices, const Tensor& table) {
  return gather(operand("embedding", table), indices, 0);
}

Tensor indexSelect(const Tensor& x, std::int64_t axis, const Tensor& indices) {
  if (indices.rank() != 1) {
    raise<InvalidArgument>("indexSelect: expected a list of indices, got {}", indices.type().str());
  }
  return gather(x, indices, axis);
}

Tensor takeAlongDim(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  GraphBuilder& b = x.builder();
  return {indices.builder(), ops::gatherElements(b, x.value(), indices.value(), axis)};
}

Tensor gatherNd(const Tensor& x, const Tensor& indices, std::int64_t batchDims) {
  GraphBuilder& b = x.builder();
  return {indices.builder(), ops::gatherNd(b, x.value(), indices.value(), batchDims)};
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source) {
  return scattered(x, axis, indices, source, "none");
}

Tensor scatterAdd(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source) {
  return scattered(x, axis, indices, source, "add");
}

Tensor scatterReduce(const Tensor& x,
                     std::int64_t axis,
                     const Tensor& indices,
                     const Tensor& source,
                     std::string_view reduce) {
  const std::string_view reduction = reduce == "sum"    ? "add"
                                     : reduce == "prod" ? "mul"
                                     : reduce == "amax" ? "max"
                                     : reduce == "amin" ? "min"
                                                        : "";
  if (reduction.empty()) {
    raise<InvalidArgument>("scatterReduce: expected sum, prod, amax or amin, got {}", reduce);
  }
  return scattered(x, axis, indices, source, reduction);
}

Tensor scatterNd(const Tensor& target,
                 const Tensor& indices,
                 const Tensor& values,
                 std::string_view reduction) {
  const auto [x, source] = operands("index_put", target, values);
  GraphBuilder& b = x.builder();
  source.builder();
  return {indices.builder(),
          ops::scatterNd(b, x.value(), indices.value(), source.value(), reduction)};
}

Tensor indexAdd(const Tensor& target,
                std::int64_t axis,
                const Tensor& indices,
                const Tensor& values) {
  const auto [x, source] = operands("index_add", target, values);
  GraphBuilder& b = x.builder();
  source.builder();
  return {indices.builder(), ops::scatterAdd(b, x.value(), indices.value(), source.value(), axis)};
}

Tensor maskedFill(const Tensor& x, const Tensor& mask, double value) {
  return where(mask, numberLike(x, value), x);
}

Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest) {
  GraphBuilder& b = x.builder();
  const ops::TopKValues found = ops::topK(b, x.value(), k, axis, largest);
  return {{b, found.values}, {b, found.indices}};
}

Sorted sort(const Tensor& x, std::int64_t axis, bool descending) {
  return topk(x, x.shape(axis), axis, descending);
}

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending) {
  return sort(x, axis, descending).indices;
}

Tensor bucketize(const Tensor& given, const Tensor& limits, bool right) {
  const auto [x, boundaries] = operands("bucketize", given, limits);
  GraphBuilder& b = x.builder();
  return {boundaries.builder(), ops::bucketize(b, x.value(), boundaries.value(), right)};
}

Tensor reverseSequence(const Tensor& x, const Tensor& lengths) {
  GraphBuilder& b = x.builder();
  return {lengths.builder(), ops::reverseSequence(b, x.value(), lengths.value())};
}

}  // namespace sluice::nn
