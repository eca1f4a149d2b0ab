// Forms of element-wise ops and reductions.
#include <array>
#include <cstring>
#include <numbers>

#include "sluice/onnx/model_writer.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

Value numberLike(ir::GraphBuilder& b, Value x, double number) {
  return b.scalar(b.dtype(x), number);
}

/// The angle of the slope, turned by pi on the left of the y axis; where y is 0 the slope has no
/// sign to go by, and at the origin there is none. Both operands infinite give NaN.
std::vector<Value> atan2Parts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value y = whole.wide(0);
  const Value x = whole.wide(1);
  const auto number = [&](double value) { return numberLike(b, x, value); };
  const Value zero = number(0.0);
  // The reciprocal tells -0 from 0.
  const auto isNegative = [&](Value value) {
    const Value none = ops::equal(b, value, zero);
    return ops::less(b, ops::where(b, none, ops::reciprocal(b, value), value), zero);
  };
  // Beside the axis itself: where x is no number, y / x is none either.
  const Value flat = ops::logicalAnd(b, ops::equal(b, y, zero), ops::equal(b, x, x));
  const Value below = isNegative(y);
  const Value half = ops::where(b, below, number(-std::numbers::pi), number(std::numbers::pi));
  const Value angle = ops::where(b, flat, y, ops::atan(b, ops::div(b, y, x)));
  // On the y axis the slope is infinite, with the sign of x's zero, too: the angle is half of a
  // half.
  const Value upright =
      ops::logicalAnd(b, ops::equal(b, x, zero), ops::logicalNot(b, ops::equal(b, y, zero)));
  const Value quarter = ops::mul(b, half, number(0.5));
  const Value turned = ops::where(b, flat, half, ops::add(b, angle, half));
  const Value sideways = ops::where(b, isNegative(x), turned, angle);
  return {whole.rounded(ops::where(b, upright, quarter, sideways))};
}

bool isUnsigned(DType dtype) {
  return isInteger(dtype) && !isSigned(dtype);
}

/// The standard shifts unsigned numbers only.
Fit fitBitShift(const UsedGraph& graph, const ir::Op& op) {
  return isUnsigned(graph.graph.type(op.inputs[0]).dtype) ? directFit(op) : Fit::None;
}

Value powerOfTwo(ir::GraphBuilder& b, Value exponent) {
  return ops::pow(b, numberLike(b, exponent, 2.0), exponent);
}

/// Signed numbers are multiplied by a power of two, or divided by it and rounded down. Shifts by
/// less than 0 or by all places leave nothing but the sign.
std::vector<Value> bitShiftParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value x = ops::cast(b, whole.inputs[0], DType::I64);
  const Value bits = ops::cast(b, whole.inputs[1], DType::I64);
  const auto number = [&](double value) { return b.scalar(DType::I64, value); };
  const bool left = whole.op.attrs.text("direction") == "LEFT";
  const Value outside = ops::logicalOr(
      b, ops::less(b, bits, number(0.0)), ops::greater(b, bits, number(left ? 63.0 : 62.0)));
  const Value inside = ops::where(b, outside, number(0.0), bits);
  if (left) {
    // Two steps, since 2^63 is no signed number.
    const Value half = ops::div(b, inside, number(2.0));
    const Value once = ops::mul(b, x, powerOfTwo(b, half));
    const Value twice = ops::mul(b, once, powerOfTwo(b, ops::sub(b, inside, half)));
    return {whole.rounded(ops::where(b, outside, number(0.0), twice))};
  }
  const Value divisor = powerOfTwo(b, inside);
  const Value whole64 = ops::sub(b, x, ops::mod(b, x, divisor));
  const Value sign = ops::where(b, ops::less(b, x, number(0.0)), number(-1.0), number(0.0));
  return {whole.rounded(ops::where(b, outside, sign, ops::div(b, whole64, divisor)))};
}

/// All bits set, less x.
std::vector<Value> bitwiseNotParts(const Whole& whole) {
  HostTensor ones(whole.op.inputs[0].dtype, Shape{});
  std::memset(ones.bytes(), 0xFF, ones.byteCount());
  return {ops::sub(whole.b, whole.b.constant(std::move(ones)), whole.inputs[0])};
}

HostTensor limitOf(const ir::Op& op, const char* attr) {
  return HostTensor::full({op.outputs[0].dtype, Shape{}}, op.attrs.real(attr));
}

void writeClip(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Clip",
                  {writer.operands(op)[0],
                   writer.constant(limitOf(op, "low")),
                   writer.constant(limitOf(op, "high"))}});
}

Fit fitClip(const UsedGraph& /*graph*/, const ir::Op& op) {
  const bool kept = limitOf(op, "low").at(0) == op.attrs.real("low") &&
                    limitOf(op, "high").at(0) == op.attrs.real("high");
  return kept ? Fit::Same : Fit::Values;
}

/// From the first of these places on, 1 - erf(x) would have fewer digits than the fit. That is t
/// exp(P(t) - x^2) with t = 1 / (1 + x / 2), to 1.2e-7 of the result; W. H. Press et al., Numerical
/// Recipes, 6.2.
std::vector<Value> erfcParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value x = whole.wide(0);
  const auto number = [&](double value) { return numberLike(b, x, value); };
  constexpr std::array kFit = {-1.26551223,
                               1.00002368,
                               0.37409196,
                               0.09678418,
                               -0.18628806,
                               0.27886807,
                               -1.13520398,
                               1.48851587,
                               -0.82215223,
                               0.17087277};
  const Value positive = ops::relu(b, x);
  const Value t = ops::reciprocal(b, ops::add(b, ops::mul(b, positive, number(0.5)), number(1.0)));
  Value sum = number(kFit.back());
  for (std::size_t i = kFit.size() - 1; i-- > 0;) {
    sum = ops::add(b, ops::mul(b, sum, t), number(kFit[i]));
  }
  const Value bell = ops::exp(b, ops::sub(b, sum, ops::square(b, positive)));
  const Value near = ops::sub(b, number(1.0), ops::erf(b, x));
  const bool wide = b.dtype(x) == DType::F64;
  const Value tail = ops::greater(b, x, number(wide ? 3.5 : 1.0));
  return {whole.rounded(ops::where(b, tail, ops::mul(b, t, bell), near))};
}

/// e^x - 1 = tanh(x / 2) (e^x + 1), in which nothing cancels.
std::vector<Value> expm1Parts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value x = whole.wide(0);
  const Value half = ops::tanh(b, ops::mul(b, x, numberLike(b, x, 0.5)));
  const Value sum = ops::add(b, ops::exp(b, x), numberLike(b, x, 1.0));
  return {whole.rounded(ops::mul(b, half, sum))};
}

/// log(1 + x) = 2 atanh(x / (2 + x)), which is exact near 0 and of no use for large x.
std::vector<Value> log1pParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value x = whole.wide(0);
  const auto number = [&](double value) { return numberLike(b, x, value); };
  const Value ratio = ops::div(b, x, ops::add(b, x, number(2.0)));
  const Value near = ops::mul(b, ops::atanh(b, ratio), number(2.0));
  const Value far = ops::log(b, ops::add(b, x, number(1.0)));
  const Value small = ops::less(b, ops::abs(b, x), number(0.5));
  return {whole.rounded(ops::where(b, small, near, far))};
}

std::vector<Value> geluParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value x = whole.wide(0);
  const auto number = [&](double value) { return numberLike(b, x, value); };
  Value odd;
  if (whole.op.attrs.text("approximate") == "tanh") {
    const Value cube = ops::mul(b, ops::mul(b, x, x), x);
    const Value sum = ops::add(b, x, ops::mul(b, cube, number(0.044715)));
    odd = ops::tanh(b, ops::mul(b, sum, number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi)));
  } else {
    odd = ops::erf(b, ops::div(b, x, number(std::numbers::sqrt2)));
  }
  const Value half = ops::mul(b, x, number(0.5));
  return {whole.rounded(ops::mul(b, half, ops::add(b, odd, number(1.0))))};
}

/// The standard's remainder of real numbers has the sign of x.
Fit fitMod(const UsedGraph& /*graph*/, const ir::Op& op) {
  return isFloat(op.outputs[0].dtype) && !op.attrs.flag("fmod") ? Fit::None : directFit(op);
}

std::vector<Value> modParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value y = whole.wide(1);
  const Value rest = ops::mod(b, whole.wide(0), y, true);
  const Value zero = numberLike(b, y, 0.0);
  const Value apart = ops::logicalXor(b, ops::less(b, rest, zero), ops::less(b, y, zero));
  const Value some = ops::logicalNot(b, ops::equal(b, rest, zero));
  return {
      whole.rounded(ops::where(b, ops::logicalAnd(b, some, apart), ops::add(b, rest, y), rest))};
}

std::vector<Value> notEqualParts(const Whole& whole) {
  return {ops::logicalNot(whole.b, ops::equal(whole.b, whole.inputs[0], whole.inputs[1]))};
}

/// Only ReduceSum has its axes as an operand in opset 17.
void writeReduce(ModelWriter& writer, const ir::Op& op) {
  const std::vector<std::int64_t>& axes = op.attrs.integers("axes");
  NewNode node{op.def->onnx.back().name,
               writer.operands(op),
               {{"keepdims", op.attrs.flag("keepDims") ? 1 : 0}}};
  if (!axes.empty() && node.op == "ReduceSum") {
    node.inputs.push_back(writer.integers(axes));
  } else if (!axes.empty()) {
    node.attrs.emplace_back("axes", axes);
  }
  writer.addNode(op, std::move(node));
}

std::vector<Value> reluGradParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const Value zero = numberLike(b, whole.inputs[0], 0.0);
  return {ops::where(b, ops::greater(b, whole.inputs[0], zero), whole.inputs[1], zero)};
}

std::vector<Value> rsqrtParts(const Whole& whole) {
  return {whole.rounded(ops::reciprocal(whole.b, ops::sqrt(whole.b, whole.wide(0))))};
}

std::vector<Value> siluParts(const Whole& whole) {
  const Value x = whole.wide(0);
  return {whole.rounded(ops::mul(whole.b, x, ops::sigmoid(whole.b, x)))};
}

std::vector<Value> squareParts(const Whole& whole) {
  return {ops::mul(whole.b, whole.inputs[0], whole.inputs[0])};
}

constexpr std::array kMathForms = {
    StandardForm{.op = "atan2", .parts = atan2Parts},
    StandardForm{.op = "bit_shift", .fit = fitBitShift, .parts = bitShiftParts},
    StandardForm{.op = "bitwise_not", .parts = bitwiseNotParts},
    StandardForm{"clamp", writeClip, fitClip},
    StandardForm{.op = "erfc", .parts = erfcParts},
    StandardForm{.op = "expm1", .parts = expm1Parts},
    StandardForm{.op = "gelu", .parts = geluParts},
    StandardForm{.op = "log1p", .parts = log1pParts},
    StandardForm{.op = "mod", .fit = fitMod, .parts = modParts},
    StandardForm{.op = "not_equal", .parts = notEqualParts},
    StandardForm{"reduce_log_sum_exp", writeReduce},
    StandardForm{"reduce_max", writeReduce},
    StandardForm{"reduce_mean", writeReduce},
    StandardForm{"reduce_min", writeReduce},
    StandardForm{"reduce_prod", writeReduce},
    StandardForm{"reduce_sum", writeReduce},
    StandardForm{.op = "relu_grad", .parts = reluGradParts},
    StandardForm{.op = "rsqrt", .parts = rsqrtParts},
    StandardForm{.op = "silu", .parts = siluParts},
    StandardForm{.op = "square", .parts = squareParts},
};

}  // namespace

std::span<const StandardForm> mathForms() {
  return kMathForms;
}

}  // namespace sluice::onnx
