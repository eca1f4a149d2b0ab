// Shape and TensorType: the extents and the element type of a tensor. A Shape is checked when it is
// made (no negative extent, no overflow of the element count), so products of its extents are safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/tensor/dtype.h"

#pragma GCC visibility push(default)

namespace sluice {

class Shape {
 public:
  Shape() = default;  ///< rank 0: a scalar
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::vector<std::int64_t>(dims)) {}
  explicit Shape(std::vector<std::int64_t> dims);

  std::int64_t rank() const { return static_cast<std::int64_t>(dims().size()); }
  std::int64_t elements() const { return extents_ == nullptr ? 1 : extents_->elements; }
  const std::vector<std::int64_t>& dims() const;
  std::int64_t operator[](std::int64_t i) const { return dims()[static_cast<std::size_t>(i)]; }
  /// Row-major strides in elements.
  std::vector<std::int64_t> strides() const;
  std::string str() const;

  bool operator==(const Shape& other) const {
    return extents_ == other.extents_ || dims() == other.dims();
  }

 private:
  struct Extents {
    std::vector<std::int64_t> dims;
    std::int64_t elements = 1;
  };

  /// Null for rank 0. The extents never change, so copies share them: graphs of many ops hold and
  /// copy a great number of shapes.
  std::shared_ptr<const Extents> extents_;
};

/// Broadcasts two shapes as NumPy does; throws InvalidArgument naming both.
Shape broadcast(const Shape& a, const Shape& b);

/// Maps an axis in [-rank, rank) to [0, rank); throws InvalidArgument otherwise.
std::int64_t normalizeAxis(std::int64_t axis, std::int64_t rank);

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;

  std::size_t bytes() const;
  std::string str() const;  ///< "f32[40, 10]"
  bool operator==(const TensorType&) const = default;
};

}  // namespace sluice

#pragma GCC visibility pop
