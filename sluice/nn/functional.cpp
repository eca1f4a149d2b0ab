#include "sluice/nn/functional.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/ops.h"

namespace sluice::nn {
namespace {

using ir::GraphBuilder;
using ir::Value;

/// `name` is that of policies; empty: a function that computes nothing.
Tensor apply(std::string_view name,
             const ir::OpDef& op,
             const Tensor& given,
             ir::Attrs attrs = {}) {
  const Tensor x = name.empty() ? given : operand(name, given);
  GraphBuilder& b = x.builder();
  return {b, b.add(op, {x.value()}, std::move(attrs))};
}

Tensor apply(std::string_view name,
             const ir::OpDef& op,
             const Tensor& left,
             const Tensor& right,
             ir::Attrs attrs = {}) {
  const auto [x, y] = operands(name, left, right);
  GraphBuilder& b = x.builder();
  return {y.builder(), b.add(op, {x.value(), y.value()}, std::move(attrs))};
}

Tensor apply(std::string_view name, const ir::OpDef& op, const Tensor& given, double number) {
  const Tensor x = operand(name, given);
  return apply(name, op, x, numberLike(x, number));
}

/// What PyTorch calls the product of these operands.
std::string_view productName(const Tensor& x, const Tensor& y) {
  const std::int64_t left = x.shape().rank();
  const std::int64_t right = y.shape().rank();
  if (left == right && left <= 3) {
    return left == 1 ? "dot" : left == 2 ? "mm" : "bmm";
  }
  return left == 2 && right == 1 ? "mv" : "matmul";
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): names, not expressions
#define SLUICE_DEFINE_ONE(function, torch, op) \
  Tensor function(const Tensor& x) {           \
    return apply(torch, ops::k##op, x);        \
  }
#define SLUICE_DEFINE_TWO(function, torch, op)        \
  Tensor function(const Tensor& x, const Tensor& y) { \
    return apply(torch, ops::k##op, x, y);            \
  }                                                   \
  Tensor function(const Tensor& x, double y) {        \
    return apply(torch, ops::k##op, x, y);            \
  }
SLUICE_NN_FUNCTIONS(SLUICE_DEFINE_ONE, SLUICE_DEFINE_TWO)
#undef SLUICE_DEFINE_ONE
#undef SLUICE_DEFINE_TWO
// NOLINTEND(bugprone-macro-parentheses)

Tensor celu(const Tensor& x, double alpha) {
  return apply("celu", ops::kCelu, x, {{"alpha", alpha}});
}

Tensor elu(const Tensor& x, double alpha) {
  return apply("elu", ops::kElu, x, {{"alpha", alpha}});
}

Tensor glu(const Tensor& x, std::int64_t axis) {
  const std::int64_t extent = x.shape(axis);
  if (extent % 2 != 0) {
    raise<InvalidArgument>("glu: axis {} of {} cannot be halved", axis, x.type().str());
  }
  const std::vector<Tensor> halves = split(operand("glu", x), {extent / 2, extent / 2}, axis);
  return halves[0] * sigmoid(halves[1]);
}

Tensor hardshrink(const Tensor& x, double lambda) {
  return apply("hardshrink", ops::kShrink, x, {{"lambd", lambda}, {"bias", 0.0}});
}

Tensor softshrink(const Tensor& x, double lambda) {
  return apply("softshrink", ops::kShrink, x, {{"lambd", lambda}, {"bias", lambda}});
}

Tensor hardsigmoid(const Tensor& x) {
  return apply("hardsigmoid", ops::kHardSigmoid, x, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}});
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  return apply("hardtanh", ops::kClamp, x, {{"low", low}, {"high", high}});
}

Tensor relu6(const Tensor& x) {
  return apply("relu6", ops::kClamp, x, {{"low", 0.0}, {"high", 6.0}});
}

Tensor leakyRelu(const Tensor& x, double negativeSlope) {
  return apply("leaky_relu", ops::kLeakyRelu, x, {{"alpha", negativeSlope}});
}

Tensor logsigmoid(const Tensor& x) {
  return neg(softplus(neg(operand("logsigmoid", x))));
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const bool perChannel = x.rank() >= 2 && weight.shape().elements() == x.shape(1);
  if (weight.shape().elements() != 1 && !perChannel) {
    raise<InvalidArgument>("prelu: expected one slope or one per channel of {}, got {}",
                           x.type().str(),
                           weight.type().str());
  }
  Extents dims(static_cast<std::size_t>(std::max<std::int64_t>(x.rank() - 1, 1)), 1);
  dims[0] = weight.shape().elements();
  return apply("prelu", ops::kPrelu, x, reshape(weight, dims));
}

Tensor tanhshrink(const Tensor& given) {
  const Tensor x = operand("tanhshrink", given);
  return x - tanh(x);
}

Tensor threshold(const Tensor& given, double threshold, double value) {
  const Tensor x = operand("threshold", given);
  if (value == 0.0) {
    return apply("threshold", ops::kThresholdedRelu, x, {{"alpha", threshold}});
  }
  return where(greater(x, threshold), x, numberLike(x, value));
}

Tensor remainder(const Tensor& x, const Tensor& y) {
  return apply("remainder", ops::kMod, x, y, {{"fmod", false}});
}

Tensor fmod(const Tensor& x, const Tensor& y) {
  return apply("fmod", ops::kMod, x, y, {{"fmod", true}});
}

Tensor bitwiseLeftShift(const Tensor& x, const Tensor& y) {
  return apply("bitwise_left_shift", ops::kBitShift, x, y, {{"direction", "LEFT"}});
}

Tensor bitwiseRightShift(const Tensor& x, const Tensor& y) {
  return apply("bitwise_right_shift", ops::kBitShift, x, y, {{"direction", "RIGHT"}});
}

Tensor isinf(const Tensor& x) {
  return apply("isinf", ops::kIsInf, x);
}

Tensor isfinite(const Tensor& x) {
  return logicalNot(logicalOr(isinf(x), isnan(x)));
}

Tensor gelu(const Tensor& given, std::string_view approximate) {
  const Tensor x = operand("gelu", given);
  GraphBuilder& b = x.builder();
  return {b, ops::gelu(b, x.value(), approximate)};
}

Tensor clamp(const Tensor& given, double low, double high) {
  const Tensor x = operand("clamp", given);
  GraphBuilder& b = x.builder();
  return {b, ops::clamp(b, x.value(), low, high)};
}

Tensor where(const Tensor& condition, const Tensor& left, const Tensor& right) {
  const auto [x, y] = operands("where", left, right);
  GraphBuilder& b = condition.builder();
  x.builder();  // checks that the others belong here too
  y.builder();
  return {b, ops::where(b, condition.value(), x.value(), y.value())};
}

Tensor cast(const Tensor& x, DType dtype) {
  GraphBuilder& b = x.builder();
  return {b, ops::cast(b, x.value(), dtype)};
}

Tensor constant(const HostTensor& value) {
  GraphBuilder& b = Tracer::current().builder();
  return {b, b.constant(value.clone())};
}

Tensor scalar(double value, DType dtype) {
  GraphBuilder& b = Tracer::current().builder();
  return {b, b.scalar(dtype, value)};
}

Tensor matmul(const Tensor& left, const Tensor& right) {
  const auto [x, y] = operands(productName(left, right), left, right);
  GraphBuilder& b = x.builder();
  return {y.builder(), ops::matmul(b, x.value(), y.value())};
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& offset) {
  const auto [x, w, bias] = operands("linear", input, weight, offset);
  GraphBuilder& b = w.builder();
  const Shape& features = w.shape();
  const Shape& rows = x.shape();
  if (features.rank() != 2 || rows.rank() < 1 || rows[rows.rank() - 1] != features[1]) {
    raise<InvalidArgument>(
        "linear: expected an input [..., in] and a weight [out, in], got {} and {}",
        x.type().str(),
        w.type().str());
  }
  const Value y = ops::matmul(b, x.value(), w.value(), {.transposeB = true});
  // Not operator+: the sum is a part of this function and has its types.
  return bias.defined() ? Tensor(bias.builder(), ops::add(b, y, bias.value())) : Tensor(b, y);
}

Tensor einsum(std::string_view equation, const std::vector<Tensor>& given) {
  std::vector<Tensor> operands = given;
  resolveTypes("tensordot", operands);  // the name that policies have for it
  GraphBuilder& b = Tracer::current().builder();
  return {b, ops::einsum(b, equation, valuesOf(operands))};
}

Tensor fft(const Tensor& x, std::int64_t axis) {
  return {x.builder(), ops::dft(x.builder(), x.value(), axis)};
}

Tensor ifft(const Tensor& x, std::int64_t axis) {
  return {x.builder(), ops::dft(x.builder(), x.value(), axis, true)};
}

}  // namespace sluice::nn
