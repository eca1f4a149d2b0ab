#include "sluice/nn/functional.h"

#include "sluice/base/error.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/ops.h"

namespace sluice::nn {
namespace {

using ir::GraphBuilder;
using ir::Value;

/// `name` is that of policies; empty: a function that computes nothing.
Tensor apply(std::string_view name, Value (*op)(GraphBuilder&, Value), const Tensor& given) {
  const Tensor x = name.empty() ? given : operand(name, given);
  GraphBuilder& b = x.builder();
  return {b, op(b, x.value())};
}

Tensor apply(std::string_view name,
             Value (*op)(GraphBuilder&, Value, Value),
             const Tensor& left,
             const Tensor& right) {
  const auto [x, y] = operands(name, left, right);
  GraphBuilder& b = x.builder();
  return {y.builder(), op(b, x.value(), y.value())};
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

/// One entry per spatial axis.
Extents perAxis(const Extents& given,
                std::int64_t axes,
                std::string_view op,
                std::string_view what) {
  const auto count = static_cast<std::int64_t>(given.size());
  if (count != 1 && count != axes) {
    raise<InvalidArgument>("{}: {} has {} entries, expected 1 or {}", op, what, count, axes);
  }
  return count == axes ? given : Extents(static_cast<std::size_t>(axes), given[0]);
}

/// The same padding before and after each axis.
Extents bothSides(Extents padding) {
  const Extents before = padding;
  padding.insert(padding.end(), before.begin(), before.end());
  return padding;
}

Tensor convNd(const Tensor& input,
              const Tensor& weight,
              const ConvOptions& options,
              const Tensor& offset,
              std::int64_t axes) {
  const std::string op = fmt::format("conv{}d", axes);
  const auto [x, w, bias] = operands(op, input, weight, offset);
  if (x.shape().rank() != axes + 2 || w.shape().rank() != axes + 2) {
    raise<InvalidArgument>("{}: expected an input and a weight of rank {}, got {} and {}",
                           op,
                           axes + 2,
                           x.type().str(),
                           w.type().str());
  }
  GraphBuilder& b = x.builder();
  Value y = ops::conv(b,
                      x.value(),
                      w.value(),
                      {.strides = perAxis(options.stride, axes, op, "stride"),
                       .pads = bothSides(perAxis(options.padding, axes, op, "padding")),
                       .dilations = perAxis(options.dilation, axes, op, "dilation"),
                       .groups = options.groups});
  if (auto& group = Tracer::current().openMultiConv()) {
    group->push_back(y.op);
  }
  if (!bias.defined()) {
    return {b, y};
  }
  if (bias.shape() != Shape{w.shape()[0]}) {
    raise<InvalidArgument>(
        "{}: the bias is {}, expected [{}]", op, bias.type().str(), w.shape()[0]);
  }
  Extents channels(static_cast<std::size_t>(axes + 1), 1);
  channels[0] = w.shape()[0];
  return {b, ops::add(b, y, ops::reshape(b, bias.value(), Shape(channels)))};
}

ops::PoolOptions pool2d(std::string_view op,
                        const Tensor& x,
                        std::int64_t kernel,
                        std::optional<std::int64_t> stride,
                        std::int64_t padding) {
  if (x.shape().rank() != 4) {
    raise<InvalidArgument>(
        "{}: expected [batch, channels, height, width], got {}", op, x.type().str());
  }
  const std::int64_t step = stride.value_or(kernel);
  return {.kernel = {kernel, kernel},
          .strides = {step, step},
          .pads = {padding, padding, padding, padding}};
}

}  // namespace

Tensor relu(const Tensor& x) {
  return apply("relu", ops::relu, x);
}

Tensor gelu(const Tensor& given, std::string_view approximate) {
  const Tensor x = operand("gelu", given);
  GraphBuilder& b = x.builder();
  return {b, ops::gelu(b, x.value(), approximate)};
}

Tensor silu(const Tensor& x) {
  return apply("silu", ops::silu, x);
}

Tensor tanh(const Tensor& x) {
  return apply("tanh", ops::tanh, x);
}

Tensor sigmoid(const Tensor& x) {
  return apply("sigmoid", ops::sigmoid, x);
}

Tensor exp(const Tensor& x) {
  return apply("exp", ops::exp, x);
}

Tensor log(const Tensor& x) {
  return apply("log", ops::log, x);
}

Tensor sqrt(const Tensor& x) {
  return apply("sqrt", ops::sqrt, x);
}

Tensor square(const Tensor& x) {
  return apply("square", ops::square, x);
}

Tensor abs(const Tensor& x) {
  return apply("abs", ops::abs, x);
}

Tensor pow(const Tensor& given, double exponent) {
  const Tensor x = operand("pow", given);
  return apply("pow", ops::pow, x, scalar(exponent, x.dtype()));
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

Tensor equal(const Tensor& x, const Tensor& y) {
  return apply("equal", ops::equal, x, y);
}

Tensor greater(const Tensor& x, const Tensor& y) {
  return apply("greater", ops::greater, x, y);
}

Tensor less(const Tensor& x, const Tensor& y) {
  return apply("less", ops::less, x, y);
}

Tensor cast(const Tensor& x, DType dtype) {
  GraphBuilder& b = x.builder();
  return {b, ops::cast(b, x.value(), dtype)};
}

Tensor detach(const Tensor& x) {
  return apply({}, ops::detach, x);
}

Tensor recomputationCheckpoint(const Tensor& x) {
  return apply({}, ops::recomputationCheckpoint, x);
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

Tensor conv1d(const Tensor& x, const Tensor& w, const ConvOptions& options, const Tensor& bias) {
  return convNd(x, w, options, bias, 1);
}

Tensor conv2d(const Tensor& x, const Tensor& w, const ConvOptions& options, const Tensor& bias) {
  return convNd(x, w, options, bias, 2);
}

Tensor conv3d(const Tensor& x, const Tensor& w, const ConvOptions& options, const Tensor& bias) {
  return convNd(x, w, options, bias, 3);
}

Tensor maxPool2d(const Tensor& given,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride,
                 std::int64_t padding) {
  const Tensor x = operand("max_pool2d", given);
  const ops::PoolOptions options = pool2d("maxPool2d", x, kernel, stride, padding);
  return {x.builder(), ops::maxPool(x.builder(), x.value(), options)};
}

Tensor avgPool2d(const Tensor& given,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride,
                 std::int64_t padding) {
  const Tensor x = operand("avg_pool2d", given);
  ops::PoolOptions options = pool2d("avgPool2d", x, kernel, stride, padding);
  options.countIncludePad = true;
  return {x.builder(), ops::avgPool(x.builder(), x.value(), options)};
}

Tensor globalAvgPool(const Tensor& x) {
  if (x.shape().rank() < 3) {
    raise<InvalidArgument>("globalAvgPool: expected [batch, channels, spatial axes], got {}",
                           x.type().str());
  }
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 2; i < x.shape().rank(); ++i) {
    axes.push_back(i);
  }
  return mean(x, std::move(axes));
}

}  // namespace sluice::nn
