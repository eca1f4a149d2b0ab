#include "sluice/tensor/shape.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice {
namespace {

/// Above this no buffer can exist, and byte sizes of every dtype still fit in 63 bits.
constexpr std::int64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 16;

}  // namespace

Shape::Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {
  bool zero = false;
  for (const std::int64_t d : dims_) {
    if (d < 0) {
      raise<InvalidArgument>("shape [{}] has a negative extent", fmt::join(dims_, ", "));
    }
    zero = zero || d == 0;
  }
  for (const std::int64_t d : dims_) {
    if (d != 0 && elements_ > kMaxElements / d) {
      raise<InvalidArgument>("shape [{}] has more elements than can be counted",
                             fmt::join(dims_, ", "));
    }
    elements_ *= std::max<std::int64_t>(d, 1);
  }
  if (zero) {
    elements_ = 0;
  }
}

std::vector<std::int64_t> Shape::strides() const {
  std::vector<std::int64_t> strides(dims_.size(), 1);
  for (std::size_t i = dims_.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * dims_[i];
  }
  return strides;
}

std::string Shape::str() const {
  return fmt::format("[{}]", fmt::join(dims_, ", "));
}

Shape broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.dims().size(), b.dims().size());
  std::vector<std::int64_t> dims(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t fromEnd = rank - i;
    const std::int64_t x = fromEnd > a.dims().size() ? 1 : a.dims()[a.dims().size() - fromEnd];
    const std::int64_t y = fromEnd > b.dims().size() ? 1 : b.dims()[b.dims().size() - fromEnd];
    if (x != y && x != 1 && y != 1) {
      raise<InvalidArgument>(
          "shapes {} and {} cannot be broadcast together: extents {} and {} differ and neither is "
          "1",
          a.str(),
          b.str(),
          x,
          y);
    }
    dims[i] = x == 1 ? y : x;
  }
  return Shape(std::move(dims));
}

std::int64_t normalizeAxis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    raise<InvalidArgument>("axis {} is out of range for rank {}", axis, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

std::size_t TensorType::bytes() const {
  return static_cast<std::size_t>(shape.elements()) * byteSize(dtype);
}

std::string TensorType::str() const {
  return std::string(name(dtype)) + shape.str();
}

}  // namespace sluice
