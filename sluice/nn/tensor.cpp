#include "sluice/nn/tensor.h"

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
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

std::int64_t Tensor::shape(std::int64_t axis) const {
  return shape()[normalizeAxis(axis, rank())];
}

Tensor Tensor::view(std::vector<std::int64_t> dims) const {
  return reshape(*this, std::move(dims));
}

Tensor Tensor::flatten(std::int64_t startAxis) const {
  return nn::flatten(*this, startAxis);
}

Tensor Tensor::transpose(std::int64_t axis0, std::int64_t axis1) const {
  return nn::transpose(*this, axis0, axis1);
}

Tensor Tensor::permute(std::vector<std::int64_t> axes) const {
  return nn::permute(*this, std::move(axes));
}

Tensor Tensor::squeeze(const std::vector<std::int64_t>& axes) const {
  return nn::squeeze(*this, axes);
}

Tensor Tensor::unsqueeze(std::int64_t axis) const {
  return nn::unsqueeze(*this, axis);
}

Tensor Tensor::expand(std::vector<std::int64_t> dims) const {
  return nn::expand(*this, std::move(dims));
}

Tensor Tensor::sum(std::vector<std::int64_t> axes, bool keepDims) const {
  return nn::sum(*this, std::move(axes), keepDims);
}

Tensor Tensor::mean(std::vector<std::int64_t> axes, bool keepDims) const {
  return nn::mean(*this, std::move(axes), keepDims);
}

Tensor Tensor::max(std::vector<std::int64_t> axes, bool keepDims) const {
  return nn::max(*this, std::move(axes), keepDims);
}

Tensor Tensor::min(std::vector<std::int64_t> axes, bool keepDims) const {
  return nn::min(*this, std::move(axes), keepDims);
}

Tensor Tensor::softmax(std::int64_t axis) const {
  return nn::softmax(*this, axis);
}

Tensor Tensor::matmul(const Tensor& y) const {
  return nn::matmul(*this, y);
}

Tensor Tensor::to(DType dtype) const {
  return cast(*this, dtype);
}

Tensor Tensor::operator[](std::int64_t row) const {
  return index({row});
}

Tensor Tensor::operator[](const Slice& rows) const {
  return index({rows});
}

Tensor Tensor::index(const std::vector<Index>& entries) const {
  Tensor x = *this;
  std::int64_t axis = 0;
  for (const Index& entry : entries) {
    if (std::holds_alternative<NewAxis>(entry)) {
      x = nn::unsqueeze(x, axis++);
      continue;
    }
    if (axis >= x.rank()) {
      raise<InvalidArgument>("index: {} has fewer axes than there are entries", type().str());
    }
    const std::int64_t extent = x.shape(axis);
    if (const auto* part = std::get_if<Slice>(&entry)) {
      const bool whole = !part->start && !part->end && part->step == 1;
      x = whole ? x
                : slice(x, axis, part->start.value_or(0), part->end.value_or(extent), part->step);
      ++axis;
      continue;
    }
    const std::int64_t at = std::get<std::int64_t>(entry);
    if (at < -extent || at >= extent) {
      raise<InvalidArgument>(
          "index: axis {} of {} has {} elements, there is no {}", axis, x.type().str(), extent, at);
    }
    const std::int64_t start = at < 0 ? at + extent : at;
    x = nn::squeeze(slice(x, axis, start, start + 1), {axis});
  }
  return x;
}

Tensor& Tensor::operator+=(const Tensor& y) {
  return *this = *this + y;
}

Tensor& Tensor::operator-=(const Tensor& y) {
  return *this = *this - y;
}

Tensor& Tensor::operator*=(const Tensor& y) {
  return *this = *this * y;
}

Tensor& Tensor::operator/=(const Tensor& y) {
  return *this = *this / y;
}

Tensor& Tensor::operator+=(double y) {
  return *this = *this + y;
}

Tensor& Tensor::operator-=(double y) {
  return *this = *this - y;
}

Tensor& Tensor::operator*=(double y) {
  return *this = *this * y;
}

Tensor& Tensor::operator/=(double y) {
  return *this = *this / y;
}

Tensor operator+(const Tensor& x, const Tensor& y) {
  return add(x, y);
}

Tensor operator-(const Tensor& x, const Tensor& y) {
  return sub(x, y);
}

Tensor operator*(const Tensor& x, const Tensor& y) {
  return mul(x, y);
}

Tensor operator/(const Tensor& x, const Tensor& y) {
  return div(x, y);
}

Tensor operator+(const Tensor& x, double y) {
  return add(x, numberLike(x, y));
}

Tensor operator-(const Tensor& x, double y) {
  return sub(x, numberLike(x, y));
}

Tensor operator*(const Tensor& x, double y) {
  return mul(x, numberLike(x, y));
}

Tensor operator/(const Tensor& x, double y) {
  return div(x, numberLike(x, y));
}

Tensor operator+(double x, const Tensor& y) {
  return add(numberLike(y, x), y);
}

Tensor operator-(double x, const Tensor& y) {
  return sub(numberLike(y, x), y);
}

Tensor operator*(double x, const Tensor& y) {
  return mul(numberLike(y, x), y);
}

Tensor operator/(double x, const Tensor& y) {
  return div(numberLike(y, x), y);
}

Tensor operator-(const Tensor& x) {
  return neg(x);
}

Tensor operator==(const Tensor& x, const Tensor& y) {
  return equal(x, y);
}

Tensor operator!=(const Tensor& x, const Tensor& y) {
  return notEqual(x, y);
}

Tensor operator<(const Tensor& x, const Tensor& y) {
  return less(x, y);
}

Tensor operator<=(const Tensor& x, const Tensor& y) {
  return lessEqual(x, y);
}

Tensor operator>(const Tensor& x, const Tensor& y) {
  return greater(x, y);
}

Tensor operator>=(const Tensor& x, const Tensor& y) {
  return greaterEqual(x, y);
}

Tensor operator==(const Tensor& x, double y) {
  return equal(x, y);
}

Tensor operator!=(const Tensor& x, double y) {
  return notEqual(x, y);
}

Tensor operator<(const Tensor& x, double y) {
  return less(x, y);
}

Tensor operator<=(const Tensor& x, double y) {
  return lessEqual(x, y);
}

Tensor operator>(const Tensor& x, double y) {
  return greater(x, y);
}

Tensor operator>=(const Tensor& x, double y) {
  return greaterEqual(x, y);
}

Tensor operator&(const Tensor& x, const Tensor& y) {
  return logicalAnd(x, y);
}

Tensor operator|(const Tensor& x, const Tensor& y) {
  return logicalOr(x, y);
}

Tensor operator!(const Tensor& x) {
  return logicalNot(x);
}

}  // namespace sluice::nn
