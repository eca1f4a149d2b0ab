#include "sluice/tensor/shape.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice {
namespace {

/// Above this no buffer can exist, and byte sizes of every dtype still fit in 63 bits.
constexpr std::int64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 16;
/// What every format of files has room for; some checks of axes compare each with each.
constexpr std::size_t kMostExtents = 255;

}  // namespace

Shape::Shape(std::vector<std::int64_t> dims) {
  if (dims.size() > kMostExtents) {
    raise<InvalidArgument>("a shape of {} extents, expected at most {}", dims.size(), kMostExtents);
  }
  bool zero = false;
  for (const std::int64_t d : dims) {
    if (d < 0) {
      raise<InvalidArgument>("shape [{}] has a negative extent", fmt::join(dims, ", "));
    }
    zero = zero || d == 0;
  }
  std::int64_t elements = 1;
  for (const std::int64_t d : dims) {
    if (d != 0 && elements > kMaxElements / d) {
      raise<InvalidArgument>("shape [{}] has more elements than can be counted",
                             fmt::join(dims, ", "));
    }
    elements *= std::max<std::int64_t>(d, 1);
  }
  if (!dims.empty()) {
    extents_ = std::make_shared<const Extents>(Extents{std::move(dims), zero ? 0 : elements});
  }
}

const std::vector<std::int64_t>& Shape::dims() const {
  static const std::vector<std::int64_t> kNone;
  return extents_ == nullptr ? kNone : extents_->dims;
}

std::vector<std::int64_t> Shape::strides() const {
  std::vector<std::int64_t> strides(dims().size(), 1);
  for (std::size_t i = dims().size(); i-- > 1;) {
    strides[i - 1] = strides[i] * dims()[i];
  }
  return strides;
}

std::string Shape::str() const {
  return fmt::format("[{}]", fmt::join(dims(), ", "));
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
