// Translations of further element-wise ops with other forms in older versions, ranges, diagonals,
// running sums and counts of n-grams.
#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// f(x) where x is negative, else x: slopes may have any sign here.
template <class F>
Value bentBelowZero(Node& node, F f) {
  const Value x = node.input(0);
  const Value zero = node.b.scalar(node.b.dtype(x), 0.0);
  const Value bent = f(ops::minimum(node.b, x, zero));
  return ops::where(node.b, ops::less(node.b, x, zero), bent, x);
}

std::vector<Value> elu(Node& node) {
  const double alpha = node.real("alpha", 1.0);
  if (alpha >= 0.0) {
    return {ops::elu(node.b, node.input(0), alpha)};
  }
  return {bentBelowZero(node, [&](Value x) {
    return ops::mul(node.b, ops::expm1(node.b, x), node.b.scalar(node.b.dtype(x), alpha));
  })};
}

std::vector<Value> leakyRelu(Node& node) {
  const double alpha = node.real("alpha", 0.01);
  if (alpha >= 0.0) {
    return {ops::leakyRelu(node.b, node.input(0), alpha)};
  }
  return {bentBelowZero(
      node, [&](Value x) { return ops::mul(node.b, x, node.b.scalar(node.b.dtype(x), alpha)); })};
}

/// Before version 7 the slopes were one or one per channel.
std::vector<Value> prelu(Node& node) {
  Value slope = node.input(1);
  const std::int64_t count = node.shape(1).elements();
  if (node.version() < 7 && node.rank(1) == 1 && node.rank(0) > 1) {
    Ints dims(static_cast<std::size_t>(node.rank(0)), 1);
    dims[1] = count;
    slope = ops::reshape(node.b, slope, Shape(std::move(dims)));
  }
  return {ops::prelu(node.b, node.input(0), slope)};
}

std::vector<Value> range(Node& node) {
  const DType dtype = node.dtype(0);
  const double start = node.realOf(0, 0.0);
  const double limit = node.realOf(1, 0.0);
  const double delta = node.realOf(2, 1.0);
  if (!std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta) || delta == 0.0) {
    raise<InvalidArgument>(
        "a range from {} to {} in steps of {} has no length", start, limit, delta);
  }
  const double count = std::max(std::ceil((limit - start) / delta), 0.0);
  node.countConstant(count, dtype);
  HostTensor numbers(dtype, Shape{static_cast<std::int64_t>(count)});
  for (std::int64_t i = 0; i < numbers.shape().elements(); ++i) {
    numbers.set(i, start + static_cast<double>(i) * delta);
  }
  return {node.b.constant(std::move(numbers))};
}

std::vector<Value> eyeLike(Node& node) {
  const Shape shape = node.shape(0);
  if (shape.rank() != 2) {
    raise<InvalidArgument>("expected a matrix, got {}", shape.str());
  }
  const DType dtype = node.dtypeAttr("dtype", node.dtype(0));
  const Value row = ops::iota(node.b, {DType::I64, Shape{shape[0], 1}}, 0);
  const Value column = ops::iota(node.b, {DType::I64, Shape{1, shape[1]}}, 1);
  const auto shift = static_cast<double>(node.integer("k", 0));
  const Value moved = ops::add(node.b, row, node.b.scalar(DType::I64, shift));
  return {ops::cast(node.b, ops::equal(node.b, moved, column), dtype)};
}

std::vector<Value> cumSum(Node& node) {
  return {ops::cumSum(node.b,
                      node.input(0),
                      node.integerOf(1, 0),
                      {.exclusive = node.flag("exclusive"), .reverse = node.flag("reverse")})};
}

/// The n-grams of one length that are counted, and where.
struct Grams {
  std::int64_t length = 1;
  Ints items;    // length for each n-gram
  Ints columns;  // of the result
};

std::vector<Grams> readGrams(Node& node) {
  if (node.hasAttr("pool_strings")) {
    node.unsupported("n-grams of text (string) are not supported");
  }
  const Ints pool = node.integers("pool_int64s");
  const Ints starts = node.integers("ngram_counts");
  const Ints columns = node.integers("ngram_indexes");
  const auto size = static_cast<std::int64_t>(pool.size());
  std::vector<Grams> all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Grams grams{.length = static_cast<std::int64_t>(i) + 1};
    const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : size;
    const std::int64_t count = (end - starts[i]) / grams.length;
    if (starts[i] < 0 || end > size || end < starts[i] ||
        static_cast<std::size_t>(count) > columns.size() - next) {
      raise<InvalidArgument>("ngram_counts do not fit the pool of {} numbers", size);
    }
    const std::int64_t whole = starts[i] + count * grams.length;
    grams.items.assign(pool.begin() + starts[i], pool.begin() + whole);
    const auto first = columns.begin() + static_cast<std::ptrdiff_t>(next);
    grams.columns.assign(first, first + count);
    next += static_cast<std::size_t>(count);
    all.push_back(std::move(grams));
  }
  return all;
}

/// How often each n-gram is in each row of x [rows, items], its items `gap` apart: [rows, n-grams].
Value countGrams(Node& node, Value x, const Grams& grams, std::int64_t gap) {
  ir::GraphBuilder& b = node.b;
  const std::int64_t rows = b.shape(x)[0];
  const std::int64_t places = b.shape(x)[1] - (grams.length - 1) * gap;
  const auto count = static_cast<std::int64_t>(grams.columns.size());
  if (places <= 0) {
    return ops::full(b, {DType::F32, Shape{rows, count}}, 0.0);
  }
  Value found;
  for (std::int64_t k = 0; k < grams.length; ++k) {
    HostTensor wanted(b.dtype(x), Shape{1, 1, count});
    for (std::int64_t i = 0; i < count; ++i) {
      wanted.set(i,
                 static_cast<double>(grams.items[static_cast<std::size_t>(i * grams.length + k)]));
    }
    const Value items = ops::slice(b, x, {0, k * gap}, {rows, k * gap + places});
    const Value same = ops::equal(
        b, ops::reshape(b, items, Shape{rows, places, 1}), b.constant(std::move(wanted)));
    found = found.valid() ? ops::logicalAnd(b, found, same) : same;
  }
  return ops::reduceSum(b, ops::cast(b, found, DType::F32), {1});
}

/// Columns of the result that no n-gram has stay 0: they read a column of zeros behind the counts.
Value placeCounts(Node& node, std::vector<Value> counts, const Ints& columns) {
  ir::GraphBuilder& b = node.b;
  const std::int64_t rows = b.shape(counts[0])[0];
  const std::int64_t width = columns.empty() ? 0 : *std::ranges::max_element(columns) + 1;
  HostTensor sources =
      HostTensor::full({DType::I64, Shape{width}}, static_cast<double>(columns.size()));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] < 0) {
      raise<InvalidArgument>("ngram_indexes must not be negative, got {}", columns[i]);
    }
    sources.set(columns[i], static_cast<double>(i));
  }
  counts.push_back(ops::full(b, {DType::F32, Shape{rows, 1}}, 0.0));
  return ops::gather(b, ops::concat(b, std::move(counts), 1), b.constant(std::move(sources)), 1);
}

Value weighGrams(Node& node, Value counts, const Ints& columns) {
  ir::GraphBuilder& b = node.b;
  const std::string mode = node.text("mode");
  if (mode == "TF") {
    return counts;
  }
  if (mode != "IDF" && mode != "TFIDF") {
    raise<InvalidArgument>("mode is '{}', expected TF, IDF or TFIDF", mode);
  }
  const std::vector<double> given = node.reals("weights");
  HostTensor weights = HostTensor::full({DType::F32, Shape{b.shape(counts)[1]}}, 1.0);
  for (std::size_t i = 0; i < given.size() && i < columns.size(); ++i) {
    weights.set(columns[i], given[i]);
  }
  const Value factor =
      mode == "TFIDF"
          ? counts
          : ops::cast(b, ops::greater(b, counts, b.scalar(DType::F32, 0.0)), DType::F32);
  return ops::mul(b, factor, b.constant(std::move(weights)));
}

std::vector<Value> tfIdfVectorizer(Node& node) {
  ir::GraphBuilder& b = node.b;
  const bool batch = node.rank(0) == 2;
  if (node.rank(0) < 1 || node.rank(0) > 2) {
    raise<InvalidArgument>("expected one or two axes, got {}", node.shape(0).str());
  }
  const Value x = batch ? node.input(0) : ops::unsqueeze(b, node.input(0), {0});
  std::vector<Value> counts;
  Ints columns;
  for (const Grams& grams : readGrams(node)) {
    if (grams.columns.empty()) {
      continue;
    }
    const bool counted = grams.length >= node.integer("min_gram_length") &&
                         grams.length <= node.integer("max_gram_length");
    // Single items have no gaps to vary.
    const std::int64_t gaps = grams.length == 1 ? 1 : node.integer("max_skip_count") + 1;
    Value sum = ops::full(b, {DType::F32, Shape{b.shape(x)[0], std::ssize(grams.columns)}}, 0.0);
    for (std::int64_t gap = 1; gap <= gaps && counted; ++gap) {
      sum = ops::add(b, sum, countGrams(node, x, grams, gap));
    }
    counts.push_back(sum);
    columns.insert(columns.end(), grams.columns.begin(), grams.columns.end());
  }
  if (counts.empty()) {
    raise<InvalidArgument>("there is no n-gram to count");
  }
  const Value result = weighGrams(node, placeCounts(node, std::move(counts), columns), columns);
  return {batch ? result : ops::squeeze(b, result, {0})};
}

constexpr std::array kMathTranslations = {
    Translation{"CumSum", cumSum},
    Translation{"Elu", elu},
    Translation{"EyeLike", eyeLike},
    Translation{"LeakyRelu", leakyRelu},
    Translation{"PRelu", prelu},
    Translation{"Range", range},
    Translation{"TfIdfVectorizer", tfIdfVectorizer},
};

}  // namespace

std::span<const Translation> mathTranslations() {
  return kMathTranslations;
}

}  // namespace sluice::onnx
