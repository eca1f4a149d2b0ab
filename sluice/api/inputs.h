// The inputs of a model's function. A call gives them by position or by name, possibly nested;
// those that it leaves out have defaults.
//
//   struct Network : nn::Module {
//     static std::vector<Input> inputs() {
//       return {Input("tokens"), Input("mask", std::nullopt), Input("scale", one)};
//     }
//     nn::Tensor forward(nn::Tensor tokens, std::optional<nn::Tensor> mask, nn::Tensor scale);
//   };
//   model(tokens, Keyword{"scale", scale});   // no mask
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/tensor.h"
#include "sluice/tensor/structure_parser.h"

#pragma GCC visibility push(default)

namespace sluice {

template <>
struct StructureParser<nn::Tensor> : LeafParser<nn::Tensor> {};

using SymbolicStructure = Structure<nn::Tensor>;

/// Declares an input of a model.
struct Input {
  /// A required input: every call must give it.
  explicit Input(std::string inputName) : name(std::move(inputName)) {}
  /// An optional input. If a call leaves it out it has this value: nothing, or constants of the
  /// graph, which every micro-batch gets whole.
  Input(std::string inputName, HostStructure value)
      : name(std::move(inputName)), byDefault(std::move(value)) {}

  std::string name;
  std::optional<HostStructure> byDefault;  ///< not set: required
};

/// An input that a call gives by name.
struct Keyword {
  std::string name;
  HostStructure value;
};

/// The inputs of a call: some by position, then others by name.
class Inputs {
 public:
  template <class... Args>
  explicit Inputs(const Args&... inputs) {
    (add(inputs), ...);
  }

  /// Adds the next positional input. Throws InvalidArgument after an input that is given by name.
  Inputs& add(HostStructure value);
  Inputs& add(Keyword input);

  std::span<const HostStructure> positional() const { return positional_; }
  std::span<const Keyword> named() const { return named_; }

 private:
  std::vector<HostStructure> positional_;
  std::vector<Keyword> named_;
};

/// A list with one part per declared input; the part of an input that is left out is absent. Throws
/// InvalidArgument for an unknown name, an input that is given twice or is missing, and for more
/// positional inputs than are declared.
HostStructure bindInputs(std::span<const Input> declared, const Inputs& given);

/// Throws InvalidArgument unless there are as many inputs as the function takes and every input has
/// a unique name.
void requireDeclaration(std::span<const Input> declared, std::size_t taken);

/// A model's function: it takes one structure per input and returns its result.
using Forward = std::function<SymbolicStructure(std::span<const SymbolicStructure>)>;

}  // namespace sluice

#pragma GCC visibility pop
