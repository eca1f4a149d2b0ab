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

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/nn/tensor.h"
#include "sluice/tensor/host_tensor.h"
#include "sluice/tensor/structure.h"

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

// The C++ types of a module's forward: which structures it takes and returns, and how the arguments
// and results of a model's call are converted to and from them.

namespace sluice::detail {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// The result and the arguments of Net::forward.
template <class T>
struct ForwardTraits;
template <class Net, class R, class... Args>
struct ForwardTraits<R (Net::*)(Args...)> {
  using Result = std::remove_cvref_t<R>;
  /// What a call of the model returns: the same structure, with host tensors.
  using Host = WithLeaf<Result, HostTensor>;
  static constexpr std::size_t kArity = sizeof...(Args);
  static constexpr std::array<bool, kArity> kOptional{kIsOptional<std::remove_cvref_t<Args>>...};

  template <class Module, std::size_t... kIs>
  static Result call(Module& net,
                     std::span<const SymbolicStructure> inputs,
                     std::index_sequence<kIs...> /*positions*/) {
    return net.forward(argument<std::remove_cvref_t<Args>>(inputs[kIs], kIs)...);
  }

 private:
  template <class T>
  static T argument(const SymbolicStructure& input, std::size_t position) {
    try {
      return build<T>(input);
    } catch (Error& error) {
      error.at("input " + std::to_string(position) + " of forward");
      throw;
    }
  }
};
template <class Net, class R, class... Args>
struct ForwardTraits<R (Net::*)(Args...) const> : ForwardTraits<R (Net::*)(Args...)> {};

template <class Net>
using ForwardOf = ForwardTraits<decltype(&Net::forward)>;

template <class Net>
concept DeclaresInputs = requires(Net& net) {
  { net.inputs() } -> std::convertible_to<std::vector<Input>>;
};

/// The inputs that the module declares, else input0, input1 and so on. A call may leave out an
/// input that is a std::optional.
template <class Net>
std::vector<Input> inputsOf(Net& net) {
  using Traits = ForwardOf<Net>;
  std::vector<Input> inputs;
  if constexpr (DeclaresInputs<Net>) {
    inputs = net.inputs();
  } else {
    for (std::size_t i = 0; i < Traits::kArity; ++i) {
      inputs.emplace_back("input" + std::to_string(i));
    }
  }
  requireDeclaration(inputs, Traits::kArity);
  for (std::size_t i = 0; i < Traits::kArity; ++i) {
    if (Traits::kOptional[i] && !inputs[i].byDefault) {
      inputs[i].byDefault.emplace();
    }
  }
  return inputs;
}

template <class Net>
Forward bindForward(Net& net) {
  return [&net](std::span<const SymbolicStructure> inputs) -> SymbolicStructure {
    using Traits = ForwardOf<Net>;
    return Traits::call(net, inputs, std::make_index_sequence<Traits::kArity>());
  };
}

}  // namespace sluice::detail

// Pending: the results of a step that runs in a thread of its own (Model::runAsync).

namespace sluice {

struct StepResult;

class Pending {
 public:
  Pending(std::shared_future<void> ended, std::shared_ptr<StepResult> result)
      : ended_(std::move(ended)), result_(std::move(result)) {}
  /// A step that failed before it began.
  explicit Pending(std::exception_ptr failure);
  Pending(Pending&&) = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  Pending& operator=(Pending&&) = delete;
  /// Waits for the end of the step.
  ~Pending();

  /// Whether get() would return at once.
  bool isReady() const;
  /// Waits, then returns what Model::run would have returned or throws what it would have thrown.
  /// Throws InvalidArgument if it is called a second time.
  std::vector<HostTensor> get();

 private:
  std::shared_future<void> ended_;  // not valid once the results were taken
  std::shared_ptr<StepResult> result_;
};

}  // namespace sluice

#pragma GCC visibility pop
