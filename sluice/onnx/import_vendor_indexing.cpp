// Translations of the ai.graphcore ops that move, pick or count elements.
#include <array>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::string_view kDomain = "ai.graphcore";

Value indices(Node& node, std::size_t i) {
  return ops::cast(node.b, node.input(i), DType::I64);
}

std::vector<Value> subsample(Node& node) {
  const Shape& shape = node.shape(0);
  const Ints strides = node.integers("strides");
  for (const std::int64_t stride : strides) {
    if (stride < 1) {
      raise<InvalidArgument>("strides must be at least 1, got {}", stride);
    }
  }
  return {ops::slice(node.b, node.input(0), Ints(strides.size(), 0), shape.dims(), strides)};
}

std::vector<Value> dynamicSlice(Node& node) {
  return {ops::dynamicSlice(
      node.b, node.input(0), indices(node, 1), node.integers("axes"), node.integers("sizes"))};
}

std::vector<Value> dynamicUpdate(Node& node) {
  return {ops::dynamicUpdate(
      node.b, node.input(0), indices(node, 1), node.input(2), node.integers("axes"))};
}

Value block(Node& node) {
  return dynamicSlice(node)[0];
}

std::vector<Value> dynamicAdd(Node& node) {
  const Value sum = ops::add(node.b, block(node), node.input(2));
  return {ops::dynamicUpdate(node.b, node.input(0), indices(node, 1), sum, node.integers("axes"))};
}

std::vector<Value> dynamicZero(Node& node) {
  const TensorType type = node.b.type(block(node));
  return {ops::dynamicUpdate(node.b,
                             node.input(0),
                             indices(node, 1),
                             ops::full(node.b, type, 0.0),
                             node.integers("axes"))};
}

/// Rows of `source` in place of rows of `destination`, or of zeros.
std::vector<Value> sequenceSlice(Node& node) {
  const Value source = node.input(0);
  const Value destination = node.input(1);
  const Shape from = node.b.shape(source);
  const Shape to = node.b.shape(destination);
  if (from.rank() < 1 || to.rank() < 1) {
    raise<InvalidArgument>("source and destination must have rows, got {} and {}",
                           node.type(0).str(),
                           node.type(1).str());
  }
  const Value rows = ops::sequenceRows(
      node.b,
      {.counts = indices(node, 2), .sourceOffsets = indices(node, 3), .offsets = indices(node, 4)},
      from[0],
      to[0]);
  const Value zero = node.b.scalar(DType::I64, 0.0);
  const Value taken = ops::gather(node.b, source, ops::maximum(node.b, rows, zero), 0);
  Ints dims(to.dims().size(), 1);
  dims[0] = to[0];
  const Value moved =
      ops::reshape(node.b, ops::greaterEqual(node.b, rows, zero), Shape(std::move(dims)));
  const Value rest =
      node.flag("zeroUnused") ? node.b.scalar(node.b.dtype(source), 0.0) : destination;
  return {ops::where(node.b, moved, taken, rest)};
}

std::vector<Value> sort(Node& node) {
  const std::int64_t axis = normalizeAxis(node.integer("axis", -1), node.rank(0));
  const ops::TopKValues results =
      ops::topK(node.b, node.input(0), node.shape(0)[axis], axis, node.flag("descending"));
  return {results.values, results.indices};
}

/// What updates start from when no initial values are given.
double emptyOf(const std::string& reduction, DType dtype) {
  if (reduction == "mul") {
    return 1.0;
  }
  if (reduction != "max" && reduction != "min") {
    return 0.0;
  }
  if (!isFloat(dtype)) {
    raise<Unsupported>("reduction {} of integers needs initial values", reduction);
  }
  return reduction == "max" ? -std::numeric_limits<double>::infinity()
                            : std::numeric_limits<double>::infinity();
}

std::vector<Value> scatterReduce(Node& node) {
  const std::string named = node.text("reduction", "sum");
  const std::string reduction = named == "sum" ? "add" : named;
  const Shape& shape = node.shape(0);
  const std::int64_t axis = normalizeAxis(node.integer("axis"), shape.rank());
  if (node.integer("group_size", 1) != 1) {
    node.unsupported("scatter in groups is not supported");
  }
  Value chosen = indices(node, 1);
  if (node.b.shape(chosen) != shape) {
    // A list of indices stands for all elements beside the axis.
    Ints dims(shape.dims().size(), 1);
    dims[static_cast<std::size_t>(axis)] = shape[axis];
    const bool list = node.b.shape(chosen).elements() == shape[axis];
    chosen = ops::broadcastTo(
        node.b, list ? ops::reshape(node.b, chosen, Shape(std::move(dims))) : chosen, shape);
  }
  Ints dims = shape.dims();
  dims[static_cast<std::size_t>(axis)] = node.integer("axis_size");
  const Value start = node.has(2) ? node.input(2)
                                  : ops::full(node.b,
                                              {node.dtype(0), Shape(std::move(dims))},
                                              emptyOf(reduction, node.dtype(0)));
  Value y = ops::scatterElements(node.b, start, chosen, node.input(0), axis, reduction);
  if (!node.has(2) && (reduction == "max" || reduction == "min")) {
    const Value untouched = ops::equal(node.b, y, start);
    y = ops::where(node.b, untouched, node.b.scalar(node.dtype(0), 0.0), y);
  }
  return {y};
}

std::vector<Value> bucketize(Node& node) {
  const Value places = ops::bucketize(
      node.b, node.input(0), ops::cast(node.b, node.input(1), node.dtype(0)), node.flag("right"));
  return {ops::cast(node.b, places, DType::I32)};
}

std::vector<Value> histogram(Node& node) {
  const std::vector<double> levels = node.reals("levels");
  for (std::size_t i = 1; i < levels.size(); ++i) {
    if (!(levels[i - 1] <= levels[i])) {
      raise<InvalidArgument>("levels must be sorted: {} comes before {}", levels[i - 1], levels[i]);
    }
  }
  HostTensor bounds(node.dtype(0), Shape{static_cast<std::int64_t>(levels.size())});
  for (std::size_t i = 0; i < levels.size(); ++i) {
    bounds.set(static_cast<std::int64_t>(i), levels[i]);
  }
  Value x = ops::flatten(node.b, node.input(0));
  if (node.flag("absoluteOfInput")) {
    x = ops::abs(node.b, x);
  }
  const Value places = ops::bucketize(node.b, x, node.b.constant(std::move(bounds)), true);
  const Shape bins{static_cast<std::int64_t>(levels.size()) + 1};
  const Value counts = ops::scatterAdd(node.b,
                                       ops::full(node.b, {DType::I64, bins}, 0.0),
                                       places,
                                       ops::full(node.b, {DType::I64, node.b.shape(x)}, 1.0),
                                       0);
  return {ops::cast(node.b, counts, DType::U32)};
}

std::vector<Value> reshape(Node& node) {
  return {ops::reshape(node.b, node.input(0), Shape(node.integers("shape")))};
}

constexpr std::array kTranslations = {
    Translation{"Bucketize", bucketize, kDomain},
    Translation{"DynamicAdd", dynamicAdd, kDomain},
    Translation{"DynamicSlice", dynamicSlice, kDomain},
    Translation{"DynamicUpdate", dynamicUpdate, kDomain},
    Translation{"DynamicZero", dynamicZero, kDomain},
    Translation{"Histogram", histogram, kDomain},
    Translation{"Reshape", reshape, kDomain},
    Translation{"ScatterReduce", scatterReduce, kDomain},
    Translation{"SequenceSlice", sequenceSlice, kDomain},
    Translation{"Sort", sort, kDomain},
    Translation{"Subsample", subsample, kDomain},
};

}  // namespace

std::span<const Translation> vendorIndexingTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
