// nn::Tensor: a symbolic tensor, which stands for a value of the graph that a trace builds. The
// Tracer, the functions of functional.h and the modules make it. It can be used only while its
// trace runs; using a default-constructed one, or one of another trace, throws InvalidArgument.
#pragma once

#include <cstdint>

#include "sluice/ir/value.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::ir {
class GraphBuilder;
}

namespace sluice::nn {

class Tensor {
 public:
  Tensor() = default;
  /// A value of the graph that the current trace builds.
  Tensor(ir::GraphBuilder& builder, ir::Value value);

  /// Whether it stands for a value.
  bool defined() const { return builder_ != nullptr; }

  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  ir::Value value() const { return value_; }
  /// The builder of the current trace. Throws InvalidArgument unless the tensor belongs to that
  /// trace, and if it was made in a body that has become a loop or branch.
  ir::GraphBuilder& builder() const;

 private:
  ir::GraphBuilder* builder_ = nullptr;
  std::uint64_t trace_ = 0;
  ir::Value value_;
};

// Element-wise operators with NumPy broadcasting. A number takes the dtype of the tensor.
Tensor operator+(const Tensor& x, const Tensor& y);
Tensor operator-(const Tensor& x, const Tensor& y);
Tensor operator*(const Tensor& x, const Tensor& y);
Tensor operator/(const Tensor& x, const Tensor& y);
Tensor operator+(const Tensor& x, double y);
Tensor operator-(const Tensor& x, double y);
Tensor operator*(const Tensor& x, double y);
Tensor operator/(const Tensor& x, double y);
Tensor operator+(double x, const Tensor& y);
Tensor operator-(double x, const Tensor& y);
Tensor operator*(double x, const Tensor& y);
Tensor operator/(double x, const Tensor& y);
Tensor operator-(const Tensor& x);

}  // namespace sluice::nn

#pragma GCC visibility pop
