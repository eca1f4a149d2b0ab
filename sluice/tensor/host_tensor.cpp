#include "sluice/tensor/host_tensor.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

#include <unistd.h>

#include "sluice/base/error.h"
#include "sluice/base/hash.h"

namespace sluice {
namespace {

constexpr std::size_t kAlignment = 64;

/// The system may promise more than it has and end the process when it is used.
bool fitsHost(std::size_t bytes) {
  return bytes / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) <=
         static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
}

std::shared_ptr<std::byte> allocateZeroed(const TensorType& type) {
  const std::size_t bytes = type.bytes();
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = fitsHost(rounded)
                     ? static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded))
                     : nullptr;
  if (memory == nullptr) {
    raise<OutOfMemory>("the host has no memory for a tensor {} of {} bytes", type.str(), bytes);
  }
  std::memset(memory, 0, rounded);
  return {memory, [](std::byte* p) { std::free(p); }};
}

void requireElement(const TensorType& type, std::int64_t i) {
  if (type.shape.elements() == 0) {
    raise<InvalidArgument>("a tensor {} has no elements, there is no element {}", type.str(), i);
  }
  if (i < 0 || i >= type.shape.elements()) {
    raise<InvalidArgument>("a tensor {} has elements 0 to {}, there is no element {}",
                           type.str(),
                           type.shape.elements() - 1,
                           i);
  }
}

template <class T>
double toDouble(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T fromDouble(double value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0.0;
  } else if constexpr (std::is_integral_v<T>) {
    if (value != value) {
      return 0;
    }
    constexpr auto kLow = static_cast<double>(std::numeric_limits<T>::lowest());
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<T>::max());
    if (value <= kLow) {
      return std::numeric_limits<T>::lowest();
    }
    return value >= kHigh ? std::numeric_limits<T>::max() : static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

/// Between integers modulo, never through double; otherwise through double.
template <class To, class From>
To converted(From value) {
  if constexpr (std::is_integral_v<From> && std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    return static_cast<To>(static_cast<std::uint64_t>(value));
  } else {
    return fromDouble<To>(toDouble(value));
  }
}

}  // namespace

HostTensor::HostTensor(TensorType type) : type_(std::move(type)) {
  storage_ = allocateZeroed(type_);
}

template <class T>
HostTensor HostTensor::of(Shape shape, std::span<const T> values) {
  if (shape.elements() != static_cast<std::int64_t>(values.size())) {
    raise<InvalidArgument>("{} values were given for a tensor of shape {}, which has {}",
                           values.size(),
                           shape.str(),
                           shape.elements());
  }
  HostTensor tensor(kDTypeOf<T>, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.data<T>().begin());
  return tensor;
}

template HostTensor HostTensor::of(Shape, std::span<const float>);
template HostTensor HostTensor::of(Shape, std::span<const Float16>);
template HostTensor HostTensor::of(Shape, std::span<const BFloat16>);
template HostTensor HostTensor::of(Shape, std::span<const double>);
template HostTensor HostTensor::of(Shape, std::span<const std::int8_t>);
template HostTensor HostTensor::of(Shape, std::span<const std::uint8_t>);
template HostTensor HostTensor::of(Shape, std::span<const std::int16_t>);
template HostTensor HostTensor::of(Shape, std::span<const std::uint16_t>);
template HostTensor HostTensor::of(Shape, std::span<const std::int32_t>);
template HostTensor HostTensor::of(Shape, std::span<const std::uint32_t>);
template HostTensor HostTensor::of(Shape, std::span<const std::int64_t>);
template HostTensor HostTensor::of(Shape, std::span<const std::uint64_t>);
template HostTensor HostTensor::of(Shape, std::span<const bool>);

HostTensor HostTensor::over(TensorType type, std::shared_ptr<std::byte> storage) {
  return {std::move(type), std::move(storage)};
}

HostTensor HostTensor::full(TensorType type, double value) {
  HostTensor tensor(std::move(type));
  if (std::bit_cast<std::uint64_t>(value) != 0) {  // it has zeros already
    dispatch(tensor.dtype(),
             [&]<class T>(T) { std::ranges::fill(tensor.data<T>(), fromDouble<T>(value)); });
  }
  return tensor;
}

double HostTensor::at(std::int64_t i) const {
  requireElement(type_, i);
  return dispatch(dtype(),
                  [&]<class T>(T) { return toDouble(data<T>()[static_cast<std::size_t>(i)]); });
}

void HostTensor::set(std::int64_t i, double value) {
  requireElement(type_, i);
  dispatch(dtype(),
           [&]<class T>(T) { data<T>()[static_cast<std::size_t>(i)] = fromDouble<T>(value); });
}

std::vector<double> HostTensor::toDoubles() const {
  return dispatch(dtype(), [&]<class T>(T) {
    std::vector<double> values;
    values.reserve(data<T>().size());
    for (const T value : data<T>()) {
      values.push_back(toDouble(value));
    }
    return values;
  });
}

HostTensor HostTensor::clone() const {
  HostTensor copy(type_);
  std::memcpy(copy.bytes(), bytes(), byteCount());
  return copy;
}

HostTensor HostTensor::reshaped(Shape shape) const {
  if (shape.elements() != type_.shape.elements()) {
    raise<InvalidArgument>("a tensor of shape {} cannot be reshaped to {}: {} elements against {}",
                           type_.shape.str(),
                           shape.str(),
                           type_.shape.elements(),
                           shape.elements());
  }
  HostTensor view = *this;
  view.type_.shape = std::move(shape);
  return view;
}

HostTensor HostTensor::rows(std::int64_t first, std::int64_t count) const {
  if (shape().rank() == 0 || first < 0 || count < 0 || count > shape()[0] - first) {
    raise<InvalidArgument>(
        "{} rows from {} on are not in a tensor of shape {}", count, first, shape().str());
  }
  std::vector<std::int64_t> dims = shape().dims();
  const std::size_t rowBytes = dims[0] == 0 ? 0 : byteCount() / static_cast<std::size_t>(dims[0]);
  dims[0] = count;
  HostTensor view = *this;
  view.type_.shape = Shape(std::move(dims));
  view.storage_ = {storage_, storage_.get() + static_cast<std::size_t>(first) * rowBytes};
  return view;
}

bool HostTensor::sameBits(const HostTensor& other) const {
  return type_ == other.type_ && std::memcmp(bytes(), other.bytes(), byteCount()) == 0;
}

std::uint64_t HostTensor::hash() const {
  return Hasher().add(type_.str()).add(std::span<const std::byte>(bytes(), byteCount())).digest();
}

void HostTensor::requireType(DType wanted) const {
  if (wanted != type_.dtype) {
    raise<InvalidArgument>("a tensor of type {} was read as {}", type_.str(), name(wanted));
  }
}

HostTensor cast(const HostTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) {
    return tensor.clone();
  }
  HostTensor result(dtype, tensor.shape());
  dispatch(tensor.dtype(), [&]<class From>(From) {
    dispatch(dtype, [&]<class To>(To) {
      std::ranges::transform(tensor.data<From>(), result.data<To>().begin(), converted<To, From>);
    });
  });
  return result;
}

}  // namespace sluice
