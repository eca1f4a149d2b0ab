// Converts numbers to text exactly: every float is printed so that it parses to the same bits. A
// NaN other than the usual quiet one is printed with its bits: nan(0x7fc00001).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/tensor/shape.h"

namespace sluice::ir {

/// The shortest text that parses to the same bits: "1", "-0", "0.1", "1e+20", "inf", "nan".
std::string realText(double value);
std::string realText(float value);
std::string realText(Float16 value);
std::string realText(BFloat16 value);

/// Same as above, but never looks like an integer: "1.0".
std::string realTextWithPoint(double value);

/// The double that prints as the float does: a 32-bit number in an attribute stands for the decimal
/// number that it prints as.
double decimalDouble(float value);

/// Parses a text that is exactly one number; nullopt if it is not or is out of range.
template <class T>
std::optional<T> parseReal(std::string_view text);

/// Makes a NaN from its bits; nullopt if they are not those of a NaN.
template <class T>
std::optional<T> nanOfBits(std::uint64_t bits);

/// Parses a decimal integer in the range of T.
template <class T>
std::optional<T> parseInteger(std::string_view text);
/// Parses "0x" followed by hexadecimal digits.
std::optional<std::uint64_t> parseHex(std::string_view text);

}  // namespace sluice::ir
