// The two 8-bit float formats of the vendor, as bits: F143 has 4 bits of exponent and 3 of
// fraction, F152 5 and 2. Neither has infinities or a negative zero; the bits that would be it are
// the one NaN. Tensors of them are u8; the ops that convert say which format it is.
#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

struct Float8Format {
  std::string_view name;
  int fractionBits = 3;
  int bias = 8;  ///< one more than usual, as no exponent is set aside

  int lowestExponent() const { return 1 - bias; }
  int highestExponent() const { return (1 << (7 - fractionBits)) - 1 - bias; }
};

inline constexpr Float8Format kF143{"f143", 3, 8};
inline constexpr Float8Format kF152{"f152", 2, 16};
inline constexpr std::uint8_t kFloat8NaN = 0x80;

/// What is beyond the largest number becomes that number, or NaN.
enum class Overflow : std::uint8_t { Clip, NaN };

/// The nearest number of the format, the even one of two; 0 has no sign.
std::uint8_t toFloat8(double x, const Float8Format& format, Overflow overflow = Overflow::Clip);
double fromFloat8(std::uint8_t bits, const Float8Format& format);

/// By the attribute `format`; throws InvalidArgument for another name.
const Float8Format& float8FormatOf(const ir::OpView& op);
/// Throws InvalidArgument unless operand 1 is one whole number.
void requireLog2Scale(const ir::OpView& op);
/// Operand 1 of a run. The vendor's tensors hold it in 6 bits: throws DeviceError outside.
int log2ScaleOf(const ir::KernelArgs& args);

}  // namespace sluice::ops
