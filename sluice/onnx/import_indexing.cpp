// Translations of ops that pick or place elements by index. Where the result's shape depends on
// what an operand holds, that operand must be known, and the result is a constant or a gather.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "sluice/base/error.h"
#include "sluice/onnx/deciding.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

HostTensor i64(const Ints& numbers) {
  return HostTensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(numbers.size())},
                                      std::span<const std::int64_t>(numbers));
}

template <Value (*kArg)(ir::GraphBuilder&, Value, std::int64_t, bool)>
std::vector<Value> argExtreme(Node& node) {
  const bool keepDims = node.flag("keepdims", true);
  if (!node.flag("select_last_index")) {
    return {kArg(node.b, node.input(0), node.integer("axis"), keepDims)};
  }
  const std::int64_t axis = normalizeAxis(node.integer("axis"), node.rank(0));
  const Value last = node.b.scalar(DType::I64, static_cast<double>(node.shape(0)[axis] - 1));
  const Value turned = ops::reverse(node.b, node.input(0), {axis});
  return {ops::sub(node.b, last, kArg(node.b, turned, axis, keepDims))};
}

std::vector<Value> gatherNd(Node& node) {
  return {ops::gatherNd(node.b, node.input(0), node.input(1), node.integer("batch_dims"))};
}

std::vector<Value> topK(Node& node) {
  const std::int64_t k = node.has(1) ? node.integerOf(1, 0) : node.integer("k");
  const ops::TopKValues results =
      ops::topK(node.b, node.input(0), k, node.integer("axis", -1), node.flag("largest", true));
  return {results.values, results.indices};
}

/// Whether the operand holds 0 and 1, whatever their type.
bool areZeroAndOne(Node& node, std::size_t i) {
  if (!node.isConstant(i)) {
    return false;
  }
  const HostTensor values = node.constant(i);
  return values.shape() == Shape{2} && values.at(0) == 0.0 && values.at(1) == 1.0;
}

std::vector<Value> oneHot(Node& node) {
  const Value given = node.input(0);
  const Value indices =
      node.b.dtype(given) == DType::I32 ? given : ops::cast(node.b, given, DType::I64);
  const std::int64_t depth = wholeOperand(node, 1);
  const std::int64_t axis = node.integer("axis", -1);
  if (areZeroAndOne(node, 2)) {  // not read as a weight
    return {ops::oneHot(node.b, indices, depth, node.constant(2).dtype(), axis)};
  }
  // A weight comes into the graph where it is first asked for: after this op, as in an exported
  // file.
  const Value hot = ops::oneHot(node.b, indices, depth, DType::Bool, axis);
  if (node.shape(2) != Shape{2}) {
    raise<InvalidArgument>("values must be [off, on], got {}", node.type(2).str());
  }
  const Value off = ops::slice(node.b, node.input(2), {0}, {1});
  const Value on = ops::slice(node.b, node.input(2), {1}, {2});
  return {ops::where(node.b, hot, on, off)};
}

std::vector<Value> compress(Node& node) {
  const HostTensor condition = decidingOperand(node, 1);
  Value x = node.input(0);
  std::int64_t axis = 0;
  if (node.hasAttr("axis")) {
    axis = normalizeAxis(node.integer("axis"), node.rank(0));
  } else {
    x = ops::flatten(node.b, x);
  }
  if (condition.shape().elements() > node.b.shape(x)[axis]) {
    raise<InvalidArgument>("a condition of {} elements is longer than axis {} of {}",
                           condition.shape().elements(),
                           axis,
                           node.b.shape(x).str());
  }
  Ints kept;
  for (std::int64_t i = 0; i < condition.shape().elements(); ++i) {
    if (condition.at(i) != 0.0) {
      kept.push_back(i);
    }
  }
  return {ops::gather(node.b, x, node.b.constant(i64(kept)), axis)};
}

std::vector<Value> nonZero(Node& node) {
  const HostTensor x = decidingOperand(node, 0);
  Ints found;
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    if (x.at(i) != 0.0) {
      found.push_back(i);
    }
  }
  const std::int64_t rank = std::max<std::int64_t>(x.shape().rank(), 1);
  const auto count = static_cast<std::int64_t>(found.size());
  const Ints strides = x.shape().strides();
  HostTensor result(DType::I64, Shape{rank, count});
  const auto out = result.data<std::int64_t>();
  std::size_t next = 0;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    for (const std::int64_t element : found) {
      const bool scalar = x.shape().rank() == 0;
      out[next++] =
          scalar ? 0 : element / strides[static_cast<std::size_t>(axis)] % x.shape()[axis];
    }
  }
  return {node.b.constant(std::move(result))};
}

/// Rows [rows, row] of any numbers, compared as numbers; NaN is larger than all.
class Rows {
 public:
  Rows(const HostTensor& x, std::int64_t count)
      : values_(x.toDoubles()),
        row_(count == 0 ? 0 : values_.size() / static_cast<std::size_t>(count)) {}
  bool less(std::int64_t i, std::int64_t j) const {
    return std::lexicographical_compare(
        begin(i), begin(i) + step(), begin(j), begin(j) + step(), [](double x, double y) {
          return x < y || (x == x && y != y);
        });
  }

 private:
  std::vector<double>::const_iterator begin(std::int64_t i) const {
    return values_.begin() + i * step();
  }
  std::ptrdiff_t step() const { return static_cast<std::ptrdiff_t>(row_); }

  std::vector<double> values_;
  std::size_t row_;
};

struct UniqueRows {
  Ints first;    ///< the first row of each distinct value
  Ints inverse;  ///< per row the number of its value
  Ints counts;
};

UniqueRows uniqueRows(const Rows& rows, std::int64_t count, bool sorted) {
  Ints order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t i, std::int64_t j) { return rows.less(i, j); });
  Ints group(order.size());  // per row the first row equal to it
  Ints leaders;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || rows.less(order[i - 1], order[i])) {
      leaders.push_back(order[i]);
    }
    group[static_cast<std::size_t>(order[i])] = leaders.back();
  }
  if (!sorted) {
    std::ranges::sort(leaders);
  }
  UniqueRows result{
      .first = leaders, .inverse = Ints(order.size()), .counts = Ints(leaders.size())};
  Ints number(order.size());
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    number[static_cast<std::size_t>(leaders[i])] = static_cast<std::int64_t>(i);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    result.inverse[i] = number[static_cast<std::size_t>(group[i])];
    ++result.counts[static_cast<std::size_t>(result.inverse[i])];
  }
  return result;
}

std::vector<Value> unique(Node& node) {
  decidingOperand(node, 0);
  Value x = node.input(0);
  std::int64_t axis = 0;
  if (node.hasAttr("axis")) {
    axis = normalizeAxis(node.integer("axis"), node.rank(0));
  } else {
    x = ops::flatten(node.b, x);
  }
  const std::int64_t count = node.b.shape(x)[axis];
  Ints order = {axis};
  for (std::int64_t i = 0; i < node.b.shape(x).rank(); ++i) {
    if (i != axis) {
      order.push_back(i);
    }
  }
  const Rows rows(node.evaluate(ops::transpose(node.b, x, order)), count);
  const UniqueRows found = uniqueRows(rows, count, node.flag("sorted", true));
  const Value first = node.b.constant(i64(found.first));
  return {ops::gather(node.b, x, first, axis),
          first,
          node.b.constant(i64(found.inverse)),
          node.b.constant(i64(found.counts))};
}

std::vector<Value> trilu(Node& node) {
  return {ops::trilu(node.b, node.input(0), node.flag("upper", true), node.integerOf(1, 0))};
}

std::vector<Value> reverseSequence(Node& node) {
  return {ops::reverseSequence(node.b,
                               node.input(0),
                               node.input(1),
                               node.integer("batch_axis", 1),
                               node.integer("time_axis", 0))};
}

constexpr std::array kIndexingTranslations = {
    Translation{"ArgMax", argExtreme<ops::argMax>},
    Translation{"ArgMin", argExtreme<ops::argMin>},
    Translation{"Compress", compress},
    Translation{"GatherND", gatherNd},
    Translation{"NonZero", nonZero},
    Translation{"OneHot", oneHot},
    Translation{"ReverseSequence", reverseSequence},
    Translation{"TopK", topK},
    Translation{"Trilu", trilu},
    Translation{"Unique", unique},
};

}  // namespace

std::span<const Translation> indexingTranslations() {
  return kIndexingTranslations;
}

}  // namespace sluice::onnx
