// Translations of the ai.graphcore ops that move, pick or count elements.
#include <array>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

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

/// Rows of `source` where the runs put them, and `rest` (that broadcasts) where they put none.
Value movedRows(
    ir::GraphBuilder& b, Value source, const ops::SequenceRuns& runs, Value rest, std::int64_t to) {
  const Shape from = b.shape(source);
  const Value rows = ops::sequenceRows(b, runs, from[0], to);
  const Value zero = b.scalar(DType::I64, 0.0);
  const Value taken = ops::gather(b, source, ops::maximum(b, rows, zero), 0);
  Ints dims(from.dims().size(), 1);
  dims[0] = to;
  const Value moved = ops::reshape(b, ops::greaterEqual(b, rows, zero), Shape(std::move(dims)));
  return ops::where(b, moved, taken, rest);
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
  const ops::SequenceRuns runs{
      .counts = indices(node, 2), .sourceOffsets = indices(node, 3), .offsets = indices(node, 4)};
  const Value rest =
      node.flag("zeroUnused") ? node.b.scalar(node.b.dtype(source), 0.0) : destination;
  return {movedRows(node.b, source, runs, rest, to[0])};
}

/// Of a sequence; a file can say any number, and extents are multiplied.
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 24U;

/// 0, step, 2 step, ...
Value multiples(ir::GraphBuilder& b, std::int64_t count, std::int64_t step) {
  HostTensor numbers(DType::I64, Shape{count});
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.set(i, static_cast<double>(i * step));
  }
  return b.constant(std::move(numbers));
}

/// The sequences of one operand (data, offsets, lengths) as [sequences, longest, ...], zeros behind
/// their ends.
Value unpacked(Node& node, std::size_t i, std::int64_t longest) {
  ir::GraphBuilder& b = node.b;
  const Value data = node.input(3 * i);
  const Shape& offsets = node.shape(3 * i + 1);
  const Shape packed = b.shape(data);
  if (packed.rank() < 1 || offsets.rank() != 1 || longest < 1 || longest > kMaxSteps) {
    raise<InvalidArgument>(
        "expected rows, a list of offsets and a longest sequence of 1 to {} steps, got {}, {} and "
        "{}",
        kMaxSteps,
        b.type(data).str(),
        node.type(3 * i + 1).str(),
        longest);
  }
  const std::int64_t count = offsets[0];
  const Value zero = b.scalar(b.dtype(data), 0.0);
  const Value rows = movedRows(b,
                               data,
                               {.counts = indices(node, 3 * i + 2),
                                .sourceOffsets = indices(node, 3 * i + 1),
                                .offsets = multiples(b, count, longest)},
                               zero,
                               count * longest);
  Ints dims = packed.dims();
  dims[0] = longest;
  dims.insert(dims.begin(), count);
  return ops::reshape(b, rows, Shape(std::move(dims)));
}

/// The first axis in parts of this extent.
std::vector<Value> inBatches(ir::GraphBuilder& b, Value x, std::int64_t batch) {
  const std::int64_t count = b.shape(x)[0];
  if (batch < 1 || count % batch != 0) {
    raise<InvalidArgument>(
        "{} sequences cannot be passed to the callback {} at a time", count, batch);
  }
  return ops::split(b, x, 0, Ints(static_cast<std::size_t>(count / batch), batch));
}

/// Packs what the callback made of the batches into `size` rows.
Value packedAgain(Node& node, std::vector<Value> results, std::int64_t size) {
  ir::GraphBuilder& b = node.b;
  const Value all = ops::concat(b, std::move(results), 0);
  const Shape shape = b.shape(all);
  if (shape.rank() < 2) {
    raise<InvalidArgument>("the callback must give [sequences, steps, ...], got {}",
                           b.type(all).str());
  }
  Ints dims(shape.dims().begin() + 1, shape.dims().end());
  dims[0] = shape[0] * shape[1];
  const std::size_t offsets = node.numInputs() - 2;
  return movedRows(b,
                   ops::reshape(b, all, Shape(std::move(dims))),
                   {.counts = indices(node, offsets + 1),
                    .sourceOffsets = multiples(b, shape[0], shape[1]),
                    .offsets = indices(node, offsets)},
                   b.scalar(b.dtype(all), 0.0),
                   size);
}

/// Sequences that lie one behind the other are padded, passed to the callback some at a time, and
/// its results packed again. Operands: data, offsets and lengths for each input of the callback,
/// then offsets and lengths of the results.
std::vector<Value> packedDataBlock(Node& node) {
  const Ints longest = node.integers("maxSequenceLengths");
  const std::size_t inputs = longest.size();
  if (inputs == 0 || node.numInputs() != 3 * inputs + 2) {
    raise<InvalidArgument>(
        "expected data, offsets and lengths for each of {} sequence lengths, then offsets and "
        "lengths of the results, got {} operands",
        inputs,
        node.numInputs());
  }
  std::vector<std::vector<Value>> batches;
  for (std::size_t i = 0; i < inputs; ++i) {
    batches.push_back(
        inBatches(node.b, unpacked(node, i, longest[i]), node.integer("callbackBatchSize", 1)));
    if (batches[i].size() != batches[0].size() || batches[i].empty()) {
      raise<InvalidArgument>("all data must have as many sequences, at least one");
    }
  }
  std::vector<Value> results;
  for (std::size_t batch = 0; batch < batches[0].size(); ++batch) {
    std::vector<Value> operands;
    operands.reserve(batches.size());
    for (const std::vector<Value>& input : batches) {
      operands.push_back(input[batch]);
    }
    const std::vector<Value> made = node.inlineBody("callback", operands);
    if (made.size() != 1) {
      raise<InvalidArgument>("the callback must have one result, got {}", made.size());
    }
    results.push_back(made[0]);
  }
  return {packedAgain(node, std::move(results), node.integer("resultSize"))};
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

std::vector<Value> vendorReshape(Node& node) {
  return {ops::reshape(node.b, node.input(0), Shape(node.integers("shape")))};
}

constexpr std::array kVendorIndexingTranslations = {
    Translation{"Bucketize", bucketize, ops::kVendorDomain},
    Translation{"DynamicAdd", dynamicAdd, ops::kVendorDomain},
    Translation{"DynamicSlice", dynamicSlice, ops::kVendorDomain},
    Translation{"DynamicUpdate", dynamicUpdate, ops::kVendorDomain},
    Translation{"DynamicZero", dynamicZero, ops::kVendorDomain},
    Translation{"Histogram", histogram, ops::kVendorDomain},
    Translation{"PackedDataBlock", packedDataBlock, ops::kVendorDomain},
    Translation{"Reshape", vendorReshape, ops::kVendorDomain},
    Translation{"ScatterReduce", scatterReduce, ops::kVendorDomain},
    Translation{"SequenceSlice", sequenceSlice, ops::kVendorDomain},
    Translation{"Sort", sort, ops::kVendorDomain},
    Translation{"Subsample", subsample, ops::kVendorDomain},
};

}  // namespace

std::span<const Translation> vendorIndexingTranslations() {
  return kVendorIndexingTranslations;
}

}  // namespace sluice::onnx
