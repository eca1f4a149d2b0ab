// Numbers as text, exactly: every float prints so that it parses to the same bits. NaNs other than
// the usual quiet one print their bits: nan(0x7fc00001).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/tensor/dtype.h"

namespace sluice::ir {

/// The shortest text that parses to the same bits: "1", "-0", "0.1", "1e+20", "inf", "nan".
std::string realText(double value);
std::string realText(float value);
std::string realText(Float16 value);
std::string realText(BFloat16 value);

/// The same, never looking like an integer: "1.0".
std::string realTextWithPoint(double value);

/// The double that prints as the float does: numbers of 32 bits in attributes are meant as decimal
/// ones.
double decimalDouble(float value);

/// The number written in `text`, and nothing else; nullopt when it is none or out of range.
template <class T>
std::optional<T> parseReal(std::string_view text);

/// A NaN from its bits; nullopt when they are not those of a NaN.
template <class T>
std::optional<T> nanOfBits(std::uint64_t bits);

/// A decimal integer in the range of T.
template <class T>
std::optional<T> parseInteger(std::string_view text);
/// "0x" and hexadecimal digits.
std::optional<std::uint64_t> parseHex(std::string_view text);

}  // namespace sluice::ir
