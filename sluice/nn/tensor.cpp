#include "sluice/nn/tensor.h"

#include "sluice/base/error.h"
#include "sluice/ir/graph_builder.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/arithmetic_ops.h"

namespace sluice::nn {
namespace {

using BinaryOp = ir::Value (*)(ir::GraphBuilder&, ir::Value, ir::Value);

Tensor binary(std::string_view name, BinaryOp op, const Tensor& left, const Tensor& right) {
  const auto [x, y] = operands(name, left, right);
  ir::GraphBuilder& b = x.builder();
  y.builder();  // checks that it belongs here
  return {b, op(b, x.value(), y.value())};
}

/// The number as a scalar of x's dtype.
Tensor like(const Tensor& x, double number) {
  ir::GraphBuilder& b = x.builder();
  return {b, b.scalar(x.dtype(), number)};
}

}  // namespace

Tensor::Tensor(ir::GraphBuilder& builder, ir::Value value)
    : builder_(&builder), trace_(Tracer::current().id()), value_(value) {
  SLUICE_CHECK(&Tracer::current().builder() == &builder, "a tensor is made with another builder");
}

ir::GraphBuilder& Tensor::builder() const {
  if (!defined()) {
    raise<InvalidArgument>(
        "an empty tensor is used; it must come from an input, a parameter or an op");
  }
  if (Tracer::current().id() != trace_) {
    raise<InvalidArgument>(
        "a tensor of another trace is used; tensors live only as long as theirs");
  }
  if (!builder_->graph().contains(value_.op)) {
    raise<InvalidArgument>(
        "a tensor that the body of a loop or condition made is used outside it: return it from the "
        "body");
  }
  return *builder_;
}

const TensorType& Tensor::type() const {
  return builder().type(value_);
}

Tensor operator+(const Tensor& x, const Tensor& y) {
  return binary("add", ops::add, x, y);
}

Tensor operator-(const Tensor& x, const Tensor& y) {
  return binary("sub", ops::sub, x, y);
}

Tensor operator*(const Tensor& x, const Tensor& y) {
  return binary("mul", ops::mul, x, y);
}

Tensor operator/(const Tensor& x, const Tensor& y) {
  return binary("div", ops::div, x, y);
}

Tensor operator+(const Tensor& x, double y) {
  return x + like(x, y);
}

Tensor operator-(const Tensor& x, double y) {
  return x - like(x, y);
}

Tensor operator*(const Tensor& x, double y) {
  return x * like(x, y);
}

Tensor operator/(const Tensor& x, double y) {
  return x / like(x, y);
}

Tensor operator+(double x, const Tensor& y) {
  return like(y, x) + y;
}

Tensor operator-(double x, const Tensor& y) {
  return like(y, x) - y;
}

Tensor operator*(double x, const Tensor& y) {
  return like(y, x) * y;
}

Tensor operator/(double x, const Tensor& y) {
  return like(y, x) / y;
}

Tensor operator-(const Tensor& given) {
  const Tensor x = operand("neg", given);
  ir::GraphBuilder& b = x.builder();
  return {b, ops::neg(b, x.value())};
}

}  // namespace sluice::nn
