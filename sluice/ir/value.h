// Identities inside a Graph.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sluice/base/ids.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::ir {

using OpId = Id<struct OpTag>;

/// One result of one op. A default-constructed Value means "none".
struct Value {
  OpId op;
  std::uint16_t out = 0;

  bool valid() const { return op.valid(); }
  auto operator<=>(const Value&) const = default;
};

}  // namespace sluice::ir

template <>
struct std::hash<sluice::ir::Value> {
  std::size_t operator()(sluice::ir::Value v) const noexcept {
    return static_cast<std::size_t>(v.op.value) * 65537U + v.out;
  }
};

// Variables: the state of a model. They belong to the model, not to one program: every graph of the
// model refers to them by name, and one state plan gives each of them its place.

namespace sluice::ir {

enum class VariableRole : std::uint8_t { Weight, OptimizerState, Accumulator, Buffer, StepScalar };

/// How a variable gets its first value. Random values come from Philox streams keyed by the model's
/// seed and the variable's name, so adding a variable does not change the others.
struct Initializer {
  enum class Kind : std::uint8_t { Constant, Uniform, Normal, Tensor };
  Kind kind = Kind::Constant;
  double a = 0.0;  ///< Constant: the value; Uniform: low; Normal: mean
  double b = 0.0;  ///< Uniform: high; Normal: standard deviation
  HostTensor tensor;

  static Initializer constant(double value) { return {Kind::Constant, value, 0.0, {}}; }
  static Initializer uniform(double low, double high) { return {Kind::Uniform, low, high, {}}; }
  static Initializer normal(double mean, double deviation) {
    return {Kind::Normal, mean, deviation, {}};
  }
  static Initializer of(HostTensor value) { return {Kind::Tensor, 0.0, 0.0, std::move(value)}; }
  bool operator==(const Initializer& other) const;
};

/// Says that every replica keeps one of several equal parts of a variable. A part is a vector of
/// elements; the last parts are padded with zeros.
struct Split {
  Shape whole;
  std::int32_t parts = 1;

  bool operator==(const Split&) const = default;
};

struct Variable {
  std::string name;
  TensorType type;  ///< the type of what one replica keeps
  VariableRole role = VariableRole::Weight;
  bool trainable = true;    ///< only for weights; a frozen weight gets no gradient and no update
  Initializer initializer;  ///< for the whole variable, even if replicas keep parts
  std::optional<Split> split = {};

  /// The type of all parts together.
  TensorType wholeType() const { return split ? TensorType{type.dtype, split->whole} : type; }
  bool operator==(const Variable&) const = default;
};

/// The number of elements in each of the equal parts; the last parts are padded.
constexpr std::int64_t partOf(std::int64_t elements, std::int64_t parts) {
  return (elements + parts - 1) / parts;
}

std::string_view name(VariableRole role);

/// The first value of a whole variable (all its parts) under the model's seed.
HostTensor initialValue(const Variable& variable, std::uint64_t seed);

}  // namespace sluice::ir

#pragma GCC visibility pop
