// Translations of matrix products, with and without quantization. Integer products are sums of i32;
// a quantized result is rounded half to even and saturates, which casting from float does.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/onnx/window_attrs.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

Value scaled(Node& node, Value x, double factor) {
  return factor == 1.0 ? x : ops::mul(node.b, x, node.b.scalar(node.b.dtype(x), factor));
}

/// What a transposition of the last two axes was made of; none if the value is something else.
Value transposed(const ir::Graph& graph, Value value) {
  const ir::Op& op = graph.op(value.op);
  if (!op.is(ops::kTranspose)) {
    return {};
  }
  Ints swapped(op.outputs[0].shape.dims().size());
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped.back(), swapped[swapped.size() - 2]);
  return op.attrs.integers("permutation") == swapped ? op.inputs[0] : Value();
}

/// Products read matrices either way round, so a transposition need not be carried out.
std::vector<Value> matmul(Node& node) {
  Value x = node.input(0);
  Value y = node.input(1);
  if (node.rank(0) < 2 || node.rank(1) < 2) {
    return {ops::matmul(node.b, x, y)};
  }
  const Value xt = transposed(node.b.graph(), x);
  const Value yt = transposed(node.b.graph(), y);
  return {ops::matmul(node.b,
                      xt.valid() ? xt : x,
                      yt.valid() ? yt : y,
                      {.transposeA = xt.valid(), .transposeB = yt.valid()})};
}

std::vector<Value> gemm(Node& node) {
  if (node.rank(0) != 2 || node.rank(1) != 2) {
    raise<InvalidArgument>(
        "expected two matrices, got {} and {}", node.shape(0).str(), node.shape(1).str());
  }
  const ops::MatMulOptions options{.transposeA = node.flag("transA"),
                                   .transposeB = node.flag("transB")};
  const Value product = scaled(
      node, ops::matmul(node.b, node.input(0), node.input(1), options), node.real("alpha", 1.0));
  const double beta = node.real("beta", 1.0);
  if (!node.has(2) || beta == 0.0) {
    return {product};
  }
  const Shape& shape = node.b.shape(product);
  const bool mayBroadcast = node.version() >= 7 || node.flag("broadcast");
  if (mayBroadcast ? broadcast(shape, node.shape(2)) != shape : node.shape(2) != shape) {
    raise<InvalidArgument>("C {} does not fit the product {}", node.shape(2).str(), shape.str());
  }
  return {ops::add(node.b, product, scaled(node, node.input(2), beta))};
}

/// A scale or zero point with one element per index of `axis`, shaped to meet a tensor of `rank`; a
/// single element becomes a scalar.
Value along(Node& node, std::size_t operand, std::int64_t axis, std::int64_t rank) {
  const Value x = node.input(operand);
  const Shape& shape = node.b.shape(x);
  if (shape.elements() == 1) {
    return shape.rank() == 0 ? x : ops::reshape(node.b, x, Shape{});
  }
  if (shape.rank() != 1) {
    return x;
  }
  Ints dims(static_cast<std::size_t>(rank), 1);
  dims[static_cast<std::size_t>(axis)] = shape[0];
  return ops::reshape(node.b, x, Shape(std::move(dims)));
}

/// As i32 less its zero point, if it has one.
Value centered(Node& node, std::size_t operand, std::size_t zeroPoint, std::int64_t axis) {
  const Value x = ops::cast(node.b, node.input(operand), DType::I32);
  if (!node.has(zeroPoint)) {
    return x;
  }
  if (node.dtype(zeroPoint) != node.dtype(operand)) {
    raise<InvalidArgument>("the zero point must be of type {}, got {}",
                           name(node.dtype(operand)),
                           name(node.dtype(zeroPoint)));
  }
  const Value zero = along(node, zeroPoint, axis, node.rank(operand));
  return ops::sub(node.b, x, ops::cast(node.b, zero, DType::I32));
}

/// Which operands scale a tensor, and the axis they go along.
struct Quantization {
  std::size_t scale = 1;
  std::size_t zeroPoint = 2;
  std::int64_t axis = 0;
};

/// Real numbers, already divided by the scale, as the type of the zero point (u8 if it has none).
Value saturate(Node& node, Value x, const Quantization& q) {
  Value result = ops::round(node.b, x);
  if (!node.has(q.zeroPoint)) {
    return ops::cast(node.b, result, DType::U8);
  }
  const Value zero = along(node, q.zeroPoint, q.axis, node.b.shape(x).rank());
  result = ops::add(node.b, result, ops::cast(node.b, zero, node.b.dtype(x)));
  return ops::cast(node.b, result, node.dtype(q.zeroPoint));
}

/// The axis of per-axis quantization, which tensors of one scale may leave at a default that they
/// do not have.
std::int64_t quantizedAxis(Node& node) {
  if (!node.has(1) || node.shape(1).elements() == 1) {
    return 0;
  }
  return normalizeAxis(node.integer("axis", 1), node.rank(0));
}

std::vector<Value> quantizeLinear(Node& node) {
  const Quantization q{.axis = quantizedAxis(node)};
  const Value x = ops::cast(node.b, node.input(0), node.dtype(1));
  const Value scale = along(node, q.scale, q.axis, node.rank(0));
  return {saturate(node, ops::div(node.b, x, scale), q)};
}

std::vector<Value> dequantizeLinear(Node& node) {
  const std::int64_t axis = quantizedAxis(node);
  const Value x = ops::cast(node.b, centered(node, 0, 2, axis), node.dtype(1));
  return {ops::mul(node.b, x, along(node, 1, axis, node.rank(0)))};
}

/// The axis of a matrix's rows or columns; a vector has only one.
std::int64_t rows(Node& node, std::size_t operand) {
  return std::max<std::int64_t>(node.rank(operand) - 2, 0);
}
std::int64_t columns(Node& node, std::size_t operand) {
  return std::max<std::int64_t>(node.rank(operand) - 1, 0);
}

std::vector<Value> matmulInteger(Node& node) {
  const Value a = centered(node, 0, 2, rows(node, 0));
  const Value b = centered(node, 1, 3, columns(node, 1));
  return {ops::matmul(node.b, a, b)};
}

/// An i32 sum times the scales of both factors over the scale of the result, in its type.
Value requantized(Node& node, Value sum, Value factor, const Quantization& result) {
  const Value scale = along(node, result.scale, result.axis, node.b.shape(sum).rank());
  factor = ops::div(node.b, factor, scale);
  const Value real = ops::mul(node.b, ops::cast(node.b, sum, node.b.dtype(factor)), factor);
  return saturate(node, real, result);
}

std::vector<Value> qlinearMatmul(Node& node) {
  const std::int64_t rowsOfA = rows(node, 0);
  const std::int64_t columnsOfB = columns(node, 3);
  const Value sum =
      ops::matmul(node.b, centered(node, 0, 2, rowsOfA), centered(node, 3, 5, columnsOfB));
  const std::int64_t rank = node.b.shape(sum).rank();
  const Value factor = ops::mul(
      node.b, along(node, 1, rowsOfA, node.rank(0)), along(node, 4, columnsOfB, node.rank(3)));
  return {requantized(node,
                      sum,
                      factor,
                      {.scale = 6, .zeroPoint = 7, .axis = std::max<std::int64_t>(rank - 2, 0)})};
}

/// The operands of a convolution of integers.
struct IntegerConv {
  std::size_t x = 0;
  std::size_t w = 0;
  std::size_t xZeroPoint = 0;
  std::size_t wZeroPoint = 0;
};

Value convolve(Node& node, const IntegerConv& at) {
  Window window = convWindow(node, Shape(node.shape(at.w)));
  window.padSame();
  return ops::conv(node.b,
                   centered(node, at.x, at.xZeroPoint, 1),
                   centered(node, at.w, at.wZeroPoint, 0),
                   {.strides = node.integers("strides"),
                    .pads = window.padList(node),
                    .dilations = node.integers("dilations"),
                    .groups = node.integer("group", 1)});
}

std::vector<Value> convInteger(Node& node) {
  return {convolve(node, {.x = 0, .w = 1, .xZeroPoint = 2, .wZeroPoint = 3})};
}

std::vector<Value> qlinearConv(Node& node) {
  Value sum = convolve(node, {.x = 0, .w = 3, .xZeroPoint = 2, .wZeroPoint = 5});
  const std::int64_t rank = node.rank(0);
  if (node.has(8)) {
    sum = ops::add(node.b, sum, along(node, 8, 1, rank));
  }
  const Value factor = ops::mul(node.b, along(node, 1, 1, rank), along(node, 4, 1, rank));
  return {requantized(node, sum, factor, {.scale = 6, .zeroPoint = 7, .axis = 1})};
}

constexpr std::array kLinearTranslations = {
    Translation{"ConvInteger", convInteger},
    Translation{"DequantizeLinear", dequantizeLinear},
    Translation{"Gemm", gemm},
    Translation{"MatMul", matmul},
    Translation{"MatMulInteger", matmulInteger},
    Translation{"QLinearConv", qlinearConv},
    Translation{"QLinearMatMul", qlinearMatmul},
    Translation{"QuantizeLinear", quantizeLinear},
};

}  // namespace

std::span<const Translation> linearTranslations() {
  return kLinearTranslations;
}

}  // namespace sluice::onnx
