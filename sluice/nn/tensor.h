// nn::Tensor: a symbolic tensor, which stands for a value of the graph that a trace builds. The
// Tracer, the functions of functional.h and the modules make it. It can be used only while its
// trace runs; using a default-constructed one, or one of another trace, throws InvalidArgument.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "sluice/ir/value.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::ir {
class GraphBuilder;
}

namespace sluice::nn {

/// Every step-th element of [start, end) of an axis. What is not set is the whole axis; negative
/// positions count from its end.
struct Slice {
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> end = {};
  std::int64_t step = 1;
};
/// In Tensor::index: adds an axis of extent 1.
struct NewAxis {};
inline constexpr NewAxis kNewAxis;
using Index = std::variant<std::int64_t, Slice, NewAxis>;

class Tensor {
 public:
  Tensor() = default;
  /// A value of the graph that the current trace builds.
  Tensor(ir::GraphBuilder& builder, ir::Value value);

  /// Whether it stands for a value.
  bool defined() const { return builder_ != nullptr; }

  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  /// The extent of an axis; -1 is the last one. Throws InvalidArgument if there is no such axis.
  std::int64_t shape(std::int64_t axis) const;
  std::int64_t rank() const { return shape().rank(); }
  DType dtype() const { return type().dtype; }
  ir::Value value() const { return value_; }
  /// The builder of the current trace. Throws InvalidArgument unless the tensor belongs to that
  /// trace, and if it was made in a body that has become a loop or branch.
  ir::GraphBuilder& builder() const;

  // The functions of functional.h that are common in chains.
  Tensor view(std::vector<std::int64_t> dims) const;  ///< reshape
  Tensor flatten(std::int64_t startAxis = 0) const;
  Tensor transpose(std::int64_t axis0, std::int64_t axis1) const;
  Tensor permute(std::vector<std::int64_t> axes) const;
  Tensor squeeze(const std::vector<std::int64_t>& axes = {}) const;
  Tensor unsqueeze(std::int64_t axis) const;
  Tensor expand(std::vector<std::int64_t> dims) const;
  Tensor sum(std::vector<std::int64_t> axes = {}, bool keepDims = false) const;
  Tensor mean(std::vector<std::int64_t> axes = {}, bool keepDims = false) const;
  Tensor max(std::vector<std::int64_t> axes = {}, bool keepDims = false) const;
  Tensor min(std::vector<std::int64_t> axes = {}, bool keepDims = false) const;
  Tensor softmax(std::int64_t axis = -1) const;
  Tensor matmul(const Tensor& y) const;
  Tensor to(DType dtype) const;  ///< cast

  /// x[i] is row i, without the first axis; x[{1, 4}] are rows 1 to 3, x[Slice{-2}] the last two.
  Tensor operator[](std::int64_t row) const;
  Tensor operator[](const Slice& rows) const;
  /// One entry per axis, from the first on; later axes stay whole. A number removes its axis.
  Tensor index(const std::vector<Index>& entries) const;

  // A new value under the old name.
  Tensor& operator+=(const Tensor& y);
  Tensor& operator-=(const Tensor& y);
  Tensor& operator*=(const Tensor& y);
  Tensor& operator/=(const Tensor& y);
  Tensor& operator+=(double y);
  Tensor& operator-=(double y);
  Tensor& operator*=(double y);
  Tensor& operator/=(double y);

 private:
  ir::GraphBuilder* builder_ = nullptr;
  std::uint64_t trace_ = 0;
  ir::Value value_;
};

// Element-wise operators with NumPy broadcasting. A number takes the dtype of the tensor; one that
// an integer tensor cannot hold throws InvalidArgument. Comparisons give bool tensors.
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
Tensor operator==(const Tensor& x, const Tensor& y);
Tensor operator!=(const Tensor& x, const Tensor& y);
Tensor operator<(const Tensor& x, const Tensor& y);
Tensor operator<=(const Tensor& x, const Tensor& y);
Tensor operator>(const Tensor& x, const Tensor& y);
Tensor operator>=(const Tensor& x, const Tensor& y);
Tensor operator==(const Tensor& x, double y);
Tensor operator!=(const Tensor& x, double y);
Tensor operator<(const Tensor& x, double y);
Tensor operator<=(const Tensor& x, double y);
Tensor operator>(const Tensor& x, double y);
Tensor operator>=(const Tensor& x, double y);
/// Logic of bool tensors.
Tensor operator&&(const Tensor& x, const Tensor& y) = delete;  ///< write &, as in NumPy
Tensor operator||(const Tensor& x, const Tensor& y) = delete;  ///< write |
Tensor operator&(const Tensor& x, const Tensor& y);
Tensor operator|(const Tensor& x, const Tensor& y);
Tensor operator!(const Tensor& x);

}  // namespace sluice::nn

#pragma GCC visibility pop
