#include "sluice/ir/number_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

namespace sluice::ir {
namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8,
                                std::uint64_t,
                                std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

/// The type whose decimal text stands for T: the 16-bit floats print as the float they equal.
template <class T>
using Printed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
T quietNan() {
  return T(std::numeric_limits<Printed<T>>::quiet_NaN());
}

template <class T>
std::string exactText(T value) {
  const auto printed = static_cast<Printed<T>>(value);
  if (!std::isnan(printed)) {
    return fmt::format("{}", printed);
  }
  const auto bits = std::bit_cast<Bits<T>>(value);
  return bits == std::bit_cast<Bits<T>>(quietNan<T>()) ? "nan" : fmt::format("nan(0x{:x})", bits);
}

template <class T, class... Base>
std::optional<T> fromChars(std::string_view text, Base... base) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, base...);
  if (result.ec != std::errc() || result.ptr != end) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::string realText(double value) {
  return exactText(value);
}
std::string realText(float value) {
  return exactText(value);
}
std::string realText(Float16 value) {
  return exactText(value);
}
std::string realText(BFloat16 value) {
  return exactText(value);
}

double decimalDouble(float value) {
  return std::isfinite(value) ? *parseReal<double>(realText(value)) : static_cast<double>(value);
}

std::string realTextWithPoint(double value) {
  std::string text = exactText(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) {
    text += ".0";
  }
  return text;
}

template <class T>
std::optional<T> parseReal(std::string_view text) {
  if (text == "nan") {
    return quietNan<T>();
  }
  // from_chars knows more spellings of NaN and infinity than the text form has.
  const bool infinite = text == "inf" || text == "-inf";
  if (!infinite && text.find_first_not_of("-+.eE0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<Printed<T>> value = fromChars<Printed<T>>(text);
  if (!value) {
    return std::nullopt;
  }
  const T result(*value);
  if (!infinite && std::isinf(static_cast<Printed<T>>(result))) {
    return std::nullopt;
  }
  return result;
}

template <class T>
std::optional<T> nanOfBits(std::uint64_t bits) {
  if (bits > std::numeric_limits<Bits<T>>::max()) {
    return std::nullopt;
  }
  const T value = std::bit_cast<T>(static_cast<Bits<T>>(bits));
  return std::isnan(static_cast<Printed<T>>(value)) ? std::optional<T>(value) : std::nullopt;
}

template <class T>
std::optional<T> parseInteger(std::string_view text) {
  return fromChars<T>(text, 10);
}

std::optional<std::uint64_t> parseHex(std::string_view text) {
  return text.starts_with("0x") ? fromChars<std::uint64_t>(text.substr(2), 16) : std::nullopt;
}

template std::optional<double> parseReal(std::string_view);
template std::optional<float> parseReal(std::string_view);
template std::optional<Float16> parseReal(std::string_view);
template std::optional<BFloat16> parseReal(std::string_view);
template std::optional<double> nanOfBits(std::uint64_t);
template std::optional<float> nanOfBits(std::uint64_t);
template std::optional<Float16> nanOfBits(std::uint64_t);
template std::optional<BFloat16> nanOfBits(std::uint64_t);
template std::optional<std::int8_t> parseInteger(std::string_view);
template std::optional<std::uint8_t> parseInteger(std::string_view);
template std::optional<std::int16_t> parseInteger(std::string_view);
template std::optional<std::uint16_t> parseInteger(std::string_view);
template std::optional<std::int32_t> parseInteger(std::string_view);
template std::optional<std::uint32_t> parseInteger(std::string_view);
template std::optional<std::int64_t> parseInteger(std::string_view);
template std::optional<std::uint64_t> parseInteger(std::string_view);

}  // namespace sluice::ir
