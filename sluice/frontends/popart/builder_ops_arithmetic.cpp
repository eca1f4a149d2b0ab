// AiOnnx: ops of several tensors element by element, and reductions.
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice {
namespace {

std::vector<ir::NamedAttr> argAttrs(const ArgOptions& options) {
  return {{"axis", options.axis},
          {"keepdims", options.keepdims},
          {"select_last_index", options.selectLastIndex}};
}

}  // namespace

TensorId AiOnnx::add(const TensorId& x, const TensorId& y) {
  return b_.make("Add", [&] { return ops::add(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::div(const TensorId& x, const TensorId& y) {
  return b_.make("Div", [&] { return ops::div(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::mul(const TensorId& x, const TensorId& y) {
  return b_.make("Mul", [&] { return ops::mul(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::sub(const TensorId& x, const TensorId& y) {
  return b_.make("Sub", [&] { return ops::sub(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::bitshift(const TensorId& x, const TensorId& y, std::string_view direction) {
  return one("BitShift", {x, y}, {{"direction", direction}});
}

TensorId AiOnnx::max(const Ids& tensors) {
  return node("Max", tensors)[0];
}

TensorId AiOnnx::mean(const Ids& tensors) {
  return node("Mean", tensors)[0];
}

TensorId AiOnnx::min(const Ids& tensors) {
  return node("Min", tensors)[0];
}

TensorId AiOnnx::mod(const TensorId& x, const TensorId& y, bool fmod) {
  return one("Mod", {x, y}, {{"fmod", fmod}});
}

TensorId AiOnnx::pow(const TensorId& x, const TensorId& y) {
  return b_.make("Pow", [&] { return ops::pow(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::sum(const Ids& tensors) {
  return node("Sum", tensors)[0];
}

TensorId AiOnnx::where(const TensorId& condition, const TensorId& x, const TensorId& y) {
  return b_.make("Where",
                 [&] { return ops::where(b_.b_, b_.value(condition), b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::argmax(const TensorId& x, const ArgOptions& options) {
  return one("ArgMax", {x}, argAttrs(options));
}

TensorId AiOnnx::argmin(const TensorId& x, const ArgOptions& options) {
  return one("ArgMin", {x}, argAttrs(options));
}

TensorId AiOnnx::cumsum(const TensorId& x, std::int64_t axis, const ops::CumSumOptions& options) {
  return one("CumSum",
             {x, HostTensor::scalar(axis)},
             {{"exclusive", options.exclusive}, {"reverse", options.reverse}});
}

TensorId AiOnnx::reducel1(const TensorId& x, const Ints& axes, bool keepdims) {
  return one("ReduceL1", {x}, given({{"axes", axes}, {"keepdims", keepdims}}));
}

TensorId AiOnnx::reducel2(const TensorId& x, const Ints& axes, bool keepdims) {
  return one("ReduceL2", {x}, given({{"axes", axes}, {"keepdims", keepdims}}));
}

TensorId AiOnnx::reducelogsum(const TensorId& x, const Ints& axes, bool keepdims) {
  return one("ReduceLogSum", {x}, given({{"axes", axes}, {"keepdims", keepdims}}));
}

TensorId AiOnnx::reducelogsumexp(const TensorId& x, const Ints& axes, bool keepdims) {
  return one("ReduceLogSumExp", {x}, given({{"axes", axes}, {"keepdims", keepdims}}));
}

TensorId AiOnnx::reducemax(const TensorId& x, const Ints& axes, bool keepdims) {
  return b_.make("ReduceMax", [&] { return ops::reduceMax(b_.b_, b_.value(x), axes, keepdims); });
}

TensorId AiOnnx::reducemean(const TensorId& x, const Ints& axes, bool keepdims) {
  return b_.make("ReduceMean", [&] { return ops::reduceMean(b_.b_, b_.value(x), axes, keepdims); });
}

TensorId AiOnnx::reducemin(const TensorId& x, const Ints& axes, bool keepdims) {
  return one("ReduceMin", {x}, given({{"axes", axes}, {"keepdims", keepdims}}));
}

TensorId AiOnnx::reduceprod(const TensorId& x, const Ints& axes, bool keepdims) {
  return one("ReduceProd", {x}, given({{"axes", axes}, {"keepdims", keepdims}}));
}

TensorId AiOnnx::reducesum(const TensorId& x, const Ints& axes, bool keepdims) {
  return b_.make("ReduceSum", [&] { return ops::reduceSum(b_.b_, b_.value(x), axes, keepdims); });
}

TensorId AiOnnx::reducesumsquare(const TensorId& x, const Ints& axes, bool keepdims) {
  return one("ReduceSumSquare", {x}, given({{"axes", axes}, {"keepdims", keepdims}}));
}

}  // namespace sluice
