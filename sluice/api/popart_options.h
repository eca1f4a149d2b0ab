// PopartOptions: options by PopART's names, the group that PopTorch calls _Popart. It has no values
// of its own. Every name stands for a setter of Options, so what is set here is printed, copied and
// frozen with the other options.
//
//   options.popart().set("accumulationFactor", 4).set("autoRecomputation", "Pipeline");
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sluice/api/option_types.h"

#pragma GCC visibility push(default)

namespace sluice {

class Options;

namespace detail {

/// The text in quotes, as in a file of options.
std::string quotedText(std::string_view text);
std::string realText(double number);

template <class T>
concept NamedEnumerator = std::is_enum_v<T> && requires(T value) {
  { name(value) } -> std::convertible_to<std::string_view>;
};

/// A value for popart().set, written as in a file of options.
template <class T>
requires(std::is_arithmetic_v<T> || NamedEnumerator<T> ||
         std::is_convertible_v<const T&, std::string_view>) std::string
    argumentText(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return realText(static_cast<double>(value));
  } else if constexpr (std::is_enum_v<T>) {
    return quotedText(name(value));
  } else {
    return quotedText(value);
  }
}

template <class T>
std::string argumentText(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) {
    text += (text.size() > 1 ? ", " : "") + argumentText(value);
  }
  return text + "]";
}

}  // namespace detail

/// Sets options by PopART's names. The Options must live as long as this object.
class PopartOptions {
 public:
  explicit PopartOptions(Options& options) : options_(&options) {}

  /// Sets the option with this name in PopART, or calls any setter of Options with one argument. A
  /// value is a truth value, a number, a text, an enumerator (or its name, or its number in
  /// PopART), or a list of these. Throws InvalidArgument for a value of another type, and for an
  /// unknown name; the message then proposes similar names. An error leaves the options unchanged.
  template <class T>
  PopartOptions& set(std::string_view name, const T& value) {
    return setText(name, detail::argumentText(value));
  }

 private:
  PopartOptions& setText(std::string_view name, const std::string& value);

  Options* options_;
};

}  // namespace sluice

#pragma GCC visibility pop
