// Shape and TensorType: the extents and the element type of a tensor. A Shape is checked when it is
// made (no negative extent, no overflow of the element count), so products of its extents are safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice {

// Element types, and conversions to and from the two 16-bit floats.

enum class DType : std::uint8_t { F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, Bool };
inline constexpr int kNumDTypes = 13;

std::size_t byteSize(DType dtype);
/// "f32", "bf16", "i64", "bool" ...
std::string_view name(DType dtype);
std::optional<DType> parseDType(std::string_view text);

constexpr bool isFloat(DType d) {
  return d == DType::F32 || d == DType::F16 || d == DType::BF16 || d == DType::F64;
}
constexpr bool isSigned(DType d) {
  return isFloat(d) || d == DType::I8 || d == DType::I16 || d == DType::I32 || d == DType::I64;
}
constexpr bool isInteger(DType d) {
  return !isFloat(d) && d != DType::Bool;
}

/// IEEE binary16 as a storage type; arithmetic happens in float. Rounds to nearest even.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;
  bool operator==(const Float16&) const = default;
};

/// bfloat16 as a storage type; arithmetic happens in float. Rounds to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const;
  bool operator==(const BFloat16&) const = default;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::F32;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::F16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::BF16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::F64;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::I8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::U8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::I16;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::U16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::I32;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::U32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::I64;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::U64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::Bool;
};
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

/// Calls f(T{}) with the C++ type that stores `dtype`.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F32:
      return f(float{});
    case DType::F16:
      return f(Float16{});
    case DType::BF16:
      return f(BFloat16{});
    case DType::F64:
      return f(double{});
    case DType::I8:
      return f(std::int8_t{});
    case DType::U8:
      return f(std::uint8_t{});
    case DType::I16:
      return f(std::int16_t{});
    case DType::U16:
      return f(std::uint16_t{});
    case DType::I32:
      return f(std::int32_t{});
    case DType::U32:
      return f(std::uint32_t{});
    case DType::I64:
      return f(std::int64_t{});
    case DType::U64:
      return f(std::uint64_t{});
    case DType::Bool:
      break;
  }
  return f(bool{});
}

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
