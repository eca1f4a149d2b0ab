// What a model's function takes: its inputs by position and by name, nested as they are, with
// defaults for those that a call leaves out.
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

namespace sluice {

template <>
struct StructureParser<nn::Tensor> : LeafParser<nn::Tensor> {};

using SymbolicStructure = Structure<nn::Tensor>;

/// An input that a model declares.
struct Input {
  /// Every call must give it.
  explicit Input(std::string inputName) : name(std::move(inputName)) {}
  /// One that is left out is this: nothing, or constants of the graph, which every micro-batch gets
  /// whole.
  Input(std::string inputName, HostStructure value)
      : name(std::move(inputName)), byDefault(std::move(value)) {}

  std::string name;
  std::optional<HostStructure> byDefault;  ///< not set: required
};

/// An input of a call by its name.
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

  /// The next position. Throws InvalidArgument behind names.
  Inputs& add(HostStructure value);
  Inputs& add(Keyword input);

  std::span<const HostStructure> positional() const { return positional_; }
  std::span<const Keyword> named() const { return named_; }

 private:
  std::vector<HostStructure> positional_;
  std::vector<Keyword> named_;
};

/// A list of one part per declared input; nothing for those that are left out. Throws
/// InvalidArgument for an unknown name, an input that is given twice or is missing, and for more
/// positions than inputs.
HostStructure bindInputs(std::span<const Input> declared, const Inputs& given);

/// Throws InvalidArgument unless the inputs are as many as the function takes and have names of
/// their own.
void requireDeclaration(std::span<const Input> declared, std::size_t taken);

/// A function of a model, from one structure per input to its result.
using Forward = std::function<SymbolicStructure(std::span<const SymbolicStructure>)>;

}  // namespace sluice
