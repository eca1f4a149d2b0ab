// A tensor in host memory: row-major, contiguous, 64-byte aligned. Copies share their storage (this
// is the only place where users can see sharing); clone() makes an independent tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice {

class HostTensor {
 public:
  HostTensor() : HostTensor(TensorType{DType::F32, Shape{0}}) {}
  explicit HostTensor(TensorType type);  ///< zero-filled
  HostTensor(DType dtype, Shape shape) : HostTensor(TensorType{dtype, std::move(shape)}) {}

  /// A tensor of T with these values; throws InvalidArgument if their count is not the shape's.
  template <class T>
  static HostTensor of(Shape shape, std::span<const T> values);
  template <class T>
  static HostTensor of(Shape shape, std::initializer_list<T> values) {
    return of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static HostTensor scalar(T value) {
    return of<T>(Shape{}, std::span<const T>(&value, 1));
  }
  /// Wraps existing memory of at least the type's bytes, such as a ring of buffers or a mapped
  /// file. The tensor and its copies keep the memory alive.
  static HostTensor over(TensorType type, std::shared_ptr<std::byte> storage);
  /// Makes a tensor filled with `value`, converted to the dtype.
  static HostTensor full(TensorType type, double value);

  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  std::size_t byteCount() const { return type_.bytes(); }

  std::byte* bytes() { return storage_.get(); }
  const std::byte* bytes() const { return storage_.get(); }

  /// The elements; throws InvalidArgument if T is not the dtype.
  template <class T>
  std::span<T> data() {
    requireType(kDTypeOf<T>);
    return {reinterpret_cast<T*>(storage_.get()), static_cast<std::size_t>(shape().elements())};
  }
  template <class T>
  std::span<const T> data() const {
    requireType(kDTypeOf<T>);
    return {reinterpret_cast<const T*>(storage_.get()),
            static_cast<std::size_t>(shape().elements())};
  }

  /// Element i (row-major) converted to double; works for every dtype.
  double at(std::int64_t i) const;
  void set(std::int64_t i, double value);
  std::vector<double> toDoubles() const;

  HostTensor clone() const;
  /// Shares the storage under another shape with as many elements.
  HostTensor reshaped(Shape shape) const;
  /// Rows [first, first + count) of the first dimension, sharing the storage.
  HostTensor rows(std::int64_t first, std::int64_t count) const;

  /// Same type and same bits (NaNs compare by their bits).
  bool sameBits(const HostTensor& other) const;
  std::uint64_t hash() const;

 private:
  HostTensor(TensorType type, std::shared_ptr<std::byte> storage)
      : type_(std::move(type)), storage_(std::move(storage)) {}
  void requireType(DType wanted) const;

  TensorType type_;
  std::shared_ptr<std::byte> storage_;
};

/// Converts every element. Float to integer truncates toward zero; to bool means "is not 0".
HostTensor cast(const HostTensor& tensor, DType dtype);

// Tensors by name: the inputs and outputs of a model, a state dictionary, the content of a file.

using NamedTensors = std::map<std::string, HostTensor, std::less<>>;

}  // namespace sluice

#pragma GCC visibility pop
