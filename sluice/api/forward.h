// The C++ types of a module's forward: which structures it takes and returns, and how the arguments
// and results of a model's call are converted to and from them.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/api/inputs.h"
#include "sluice/base/error.h"

#pragma GCC visibility push(default)

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

#pragma GCC visibility pop
