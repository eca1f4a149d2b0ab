// The interface for authors of custom ops. A library includes only this header, does not link
// Sluice, and lists its ops once; a program loads it with loadCustomOps. The functions of an op
// must be pure: the same operands must give the same bits. Several threads may run them, also while
// compiling and again when activations are recomputed. An exception that they throw becomes an
// error of Sluice that names the op.
//
//   void forward(const sluice::custom::Call& call) {
//     const auto x = call.input(0).values<float>();
//     const auto y = call.output(0).write<float>();
//     for (std::size_t i = 0; i < x.size(); ++i) y[i] = call.real("scale") * x[i];
//   }
//   SLUICE_CUSTOM_OPS(sluice::custom::Op("com.example", "Scale", 1)
//                         .attribute("scale", 2.0)
//                         .forward(forward))
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/custom/abi.h"

namespace sluice::custom {

enum class DType : std::int32_t { F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, Bool };

enum class AttrKind : std::int32_t { Real, Integer, Text, Reals, Integers, Texts };

/// Whether elements of this type are stored as T; the 16-bit floats are stored as their bits.
template <class T>
constexpr bool storedAs(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return std::same_as<T, float>;
    case DType::F64:
      return std::same_as<T, double>;
    case DType::I8:
      return std::same_as<T, std::int8_t>;
    case DType::U8:
      return std::same_as<T, std::uint8_t>;
    case DType::I16:
      return std::same_as<T, std::int16_t>;
    case DType::F16:
    case DType::BF16:
    case DType::U16:
      return std::same_as<T, std::uint16_t>;
    case DType::I32:
      return std::same_as<T, std::int32_t>;
    case DType::U32:
      return std::same_as<T, std::uint32_t>;
    case DType::I64:
      return std::same_as<T, std::int64_t>;
    case DType::U64:
      return std::same_as<T, std::uint64_t>;
    case DType::Bool:
      return std::same_as<T, bool>;
  }
  return false;
}

struct TensorType {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape = {};
};

/// An operand in row-major order.
class Tensor {
 public:
  explicit Tensor(const abi::Tensor& tensor) : tensor_(tensor) {}

  DType dtype() const { return static_cast<DType>(tensor_.dtype); }
  std::span<const std::int64_t> shape() const {
    return {tensor_.dims, static_cast<std::size_t>(tensor_.rank)};
  }
  TensorType type() const { return {dtype(), {shape().begin(), shape().end()}}; }
  std::size_t size() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape()) {
      count *= extent;
    }
    return static_cast<std::size_t>(count);
  }
  /// False while types are inferred, and for tensors that backward does not read or need not write.
  bool present() const { return tensor_.data != nullptr; }

  /// The elements. Throws std::invalid_argument if they have another type or are not present.
  template <class T>
  std::span<const T> values() const {
    return elements<T>();
  }
  /// The elements of a result; they start as zeros.
  template <class T>
  std::span<T> write() const {
    return elements<T>();
  }

 private:
  template <class T>
  std::span<T> elements() const {
    if (!storedAs<T>(dtype())) {
      throw std::invalid_argument("an operand is of another element type than the op expects");
    }
    if (!present()) {
      throw std::invalid_argument("an operand is used that this call does not have");
    }
    return {static_cast<T*>(tensor_.data), size()};
  }

  abi::Tensor tensor_;
};

/// What a function of an op sees. Throws std::invalid_argument for an index out of range, and for
/// an attribute that was not declared or has another kind.
class Call {
 public:
  explicit Call(const abi::Call& call) : call_(call) {}

  std::size_t numInputs() const { return static_cast<std::size_t>(call_.numInputs); }
  std::size_t numOutputs() const { return static_cast<std::size_t>(call_.numOutputs); }
  Tensor input(std::size_t i) const { return at(call_.inputs, i, numInputs()); }
  Tensor output(std::size_t i) const { return at(call_.outputs, i, numOutputs()); }

  float real(std::string_view name) const { return *attr(name, AttrKind::Real).reals; }
  std::int64_t integer(std::string_view name) const {
    return *attr(name, AttrKind::Integer).integers;
  }
  std::string_view text(std::string_view name) const {
    return view(*attr(name, AttrKind::Text).texts);
  }
  std::span<const float> reals(std::string_view name) const {
    const abi::Attr& found = attr(name, AttrKind::Reals);
    return {found.reals, static_cast<std::size_t>(found.count)};
  }
  std::span<const std::int64_t> integers(std::string_view name) const {
    const abi::Attr& found = attr(name, AttrKind::Integers);
    return {found.integers, static_cast<std::size_t>(found.count)};
  }
  std::vector<std::string_view> texts(std::string_view name) const {
    const abi::Attr& found = attr(name, AttrKind::Texts);
    std::vector<std::string_view> result;
    for (std::int64_t i = 0; i < found.count; ++i) {
      result.push_back(view(found.texts[i]));
    }
    return result;
  }

 protected:
  static Tensor at(const abi::Tensor* tensors, std::size_t i, std::size_t count) {
    if (i >= count || tensors == nullptr) {
      throw std::invalid_argument("there is no operand " + std::to_string(i));
    }
    return Tensor(tensors[i]);
  }
  const abi::Call& raw() const { return call_; }

 private:
  static std::string_view view(const abi::Text& text) {
    return {text.data, static_cast<std::size_t>(text.size)};
  }
  const abi::Attr& attr(std::string_view name, AttrKind kind) const {
    for (std::int32_t i = 0; i < call_.numAttrs; ++i) {
      if (call_.attrs[i].name == name && call_.attrs[i].kind == static_cast<std::int32_t>(kind)) {
        return call_.attrs[i];
      }
    }
    throw std::invalid_argument("attribute '" + std::string(name) +
                                "' was not declared, or is read as another kind");
  }

  const abi::Call& call_;
};

/// The inputs and outputs are those of the forward run; only those that backwardReads lists are
/// present.
class BackwardCall : public Call {
 public:
  using Call::Call;

  /// The gradient of a result of a float type; zeros if the loss does not depend on the result.
  Tensor outputGrad(std::size_t i) const { return at(raw().outputGrads, i, numOutputs()); }
  /// The gradient to be written; not present() for an input that needs none.
  Tensor inputGrad(std::size_t i) const { return at(raw().inputGrads, i, numInputs()); }
};

/// One op: its domain, name and version, its attributes and its functions. By default it has one
/// input and one output.
class Op {
 public:
  using Infer = std::vector<TensorType> (*)(const Call&);
  using Forward = void (*)(const Call&);
  using Backward = void (*)(const BackwardCall&);

  Op(std::string domain, std::string name, int version)
      : domain_(std::move(domain)), name_(std::move(name)) {
    op_.version = version;
    op_.minInputs = op_.maxInputs = op_.outputs = 1;
    op_.backwardInputs = op_.backwardOutputs = ~std::uint64_t{0};
    op_.flopsPerElement = 1;
  }

  Op& inputs(int count) { return inputs(count, count); }
  Op& inputs(int min, int max) {
    op_.minInputs = min;
    op_.maxInputs = max;
    return *this;
  }
  Op& anyInputs(int min = 0) { return inputs(min, -1); }
  Op& outputs(int count) {
    op_.outputs = count;
    return *this;
  }
  Op& anyOutputs() { return outputs(-1); }

  /// Declares an attribute and its default: a number, a text, or a list of one kind of these.
  template <std::floating_point T>
  Op& attribute(std::string name, T value) {
    return add(
        {.name = std::move(name), .kind = AttrKind::Real, .reals = {static_cast<float>(value)}});
  }
  template <std::integral T>
  Op& attribute(std::string name, T value) {
    return add({.name = std::move(name),
                .kind = AttrKind::Integer,
                .integers = {static_cast<std::int64_t>(value)}});
  }
  Op& attribute(std::string name, std::string value) {
    return add({.name = std::move(name), .kind = AttrKind::Text, .texts = {std::move(value)}});
  }
  Op& attribute(std::string name, const char* value) {
    return attribute(std::move(name), std::string(value));
  }
  Op& attribute(std::string name, std::vector<float> value) {
    return add({.name = std::move(name), .kind = AttrKind::Reals, .reals = std::move(value)});
  }
  Op& attribute(std::string name, std::vector<std::int64_t> value) {
    return add({.name = std::move(name), .kind = AttrKind::Integers, .integers = std::move(value)});
  }
  Op& attribute(std::string name, std::vector<std::string> value) {
    return add({.name = std::move(name), .kind = AttrKind::Texts, .texts = std::move(value)});
  }
  /// Declares an attribute that every use of the op must give.
  Op& requiredAttribute(std::string name, AttrKind kind) {
    return add({.name = std::move(name), .kind = kind, .required = true});
  }

  /// Sets the function that infers the types of the results from those of the operands. Without it,
  /// every use of the op must give example outputs.
  Op& infer(Infer function) {
    infer_ = function;
    return *this;
  }
  Op& forward(Forward function) {
    forward_ = function;
    return *this;
  }
  /// Sets the function that training calls. Without it, a loss that depends on the op is refused.
  Op& backward(Backward function) {
    backward_ = function;
    return *this;
  }
  /// Lists the inputs and outputs that backward reads; by default all. The others need not be kept
  /// for the backward pass.
  Op& backwardReads(std::initializer_list<int> inputs, std::initializer_list<int> outputs) {
    op_.backwardInputs = mask(inputs);
    op_.backwardOutputs = mask(outputs);
    return *this;
  }
  /// The flops per element of the first result, for plans that balance work; 1 by default.
  Op& flopsPerElement(double flops) {
    op_.flopsPerElement = flops;
    return *this;
  }

 private:
  friend class Library;

  struct Attr {
    std::string name;
    AttrKind kind;
    bool required = false;
    std::vector<float> reals = {};
    std::vector<std::int64_t> integers = {};
    std::vector<std::string> texts = {};
    std::vector<abi::Text> views = {};
  };

  Op& add(Attr attr) {
    attrs_.push_back(std::move(attr));
    return *this;
  }
  static std::uint64_t mask(std::initializer_list<int> numbers) {
    std::uint64_t bits = 0;
    for (const int number : numbers) {
      bits |= std::uint64_t{1} << static_cast<unsigned>(number < 63 ? number : 63);
    }
    return bits;
  }

  /// Runs a function so that no exception leaves the library.
  template <class F>
  static void guard(const abi::Call& call, F function) {
    try {
      function();
    } catch (const std::exception& error) {
      call.fail(call.host, error.what());
    } catch (...) {
      call.fail(call.host, "it threw something that is no std::exception");
    }
  }
  static void callInfer(const void* self, const abi::Call* call) {
    guard(*call, [&] {
      for (const TensorType& type : static_cast<const Op*>(self)->infer_(Call(*call))) {
        call->result(call->host,
                     static_cast<std::int32_t>(type.dtype),
                     static_cast<std::int32_t>(type.shape.size()),
                     type.shape.data());
      }
    });
  }
  static void callForward(const void* self, const abi::Call* call) {
    guard(*call, [&] { static_cast<const Op*>(self)->forward_(Call(*call)); });
  }
  static void callBackward(const void* self, const abi::Call* call) {
    guard(*call, [&] { static_cast<const Op*>(self)->backward_(BackwardCall(*call)); });
  }

  /// The op as Sluice reads it; valid until this object is moved or destroyed.
  const abi::Op& table() {
    for (Attr& attr : attrs_) {
      for (const std::string& text : attr.texts) {
        attr.views.push_back({text.data(), static_cast<std::int64_t>(text.size())});
      }
      const std::size_t count = attr.reals.size() + attr.integers.size() + attr.texts.size();
      declared_.push_back({.name = attr.name.c_str(),
                           .kind = static_cast<std::int32_t>(attr.kind),
                           .required = attr.required ? 1 : 0,
                           .count = static_cast<std::int64_t>(count),
                           .reals = attr.reals.data(),
                           .integers = attr.integers.data(),
                           .texts = attr.views.data()});
    }
    op_.domain = domain_.c_str();
    op_.name = name_.c_str();
    op_.numAttrs = static_cast<std::int32_t>(declared_.size());
    op_.attrs = declared_.data();
    op_.self = this;
    op_.infer = infer_ == nullptr ? nullptr : callInfer;
    op_.forward = forward_ == nullptr ? nullptr : callForward;
    op_.backward = backward_ == nullptr ? nullptr : callBackward;
    return op_;
  }

  std::string domain_;
  std::string name_;
  std::vector<Attr> attrs_;
  std::vector<abi::Attr> declared_;
  Infer infer_ = nullptr;
  Forward forward_ = nullptr;
  Backward backward_ = nullptr;
  abi::Op op_ = {};
};

/// The ops of one library.
class Library {
 public:
  Library(std::initializer_list<Op> ops) : ops_(ops) {
    for (Op& op : ops_) {
      tables_.push_back(op.table());
    }
    library_ = {abi::kVersion, static_cast<std::uint32_t>(tables_.size()), tables_.data()};
  }
  ~Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const abi::Library& table() const { return library_; }

 private:
  std::vector<Op> ops_;
  std::vector<abi::Op> tables_;
  abi::Library library_ = {};
};

}  // namespace sluice::custom

/// Lists the ops of a library. Use it once per library, outside any namespace.
#define SLUICE_CUSTOM_OPS(...)                                                          \
  extern "C" __attribute__((visibility("default"))) const sluice::custom::abi::Library* \
  sluiceCustomOps() {                                                                   \
    static const sluice::custom::Library library{__VA_ARGS__};                          \
    return &library.table();                                                            \
  }
