// The two 8-bit float formats of the vendor, as bits: F143 has 4 bits of exponent and 3 of
// fraction, F152 has 5 and 2. Neither has infinities or a negative zero; the bits of the negative
// zero are the only NaN. Tensors of them are u8; the ops that convert name the format.
#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

struct Float8Format {
  std::string_view name;
  int fractionBits = 3;
  int bias = 8;  ///< one more than usual, because no exponent is reserved

  int lowestExponent() const { return 1 - bias; }
  int highestExponent() const { return (1 << (7 - fractionBits)) - 1 - bias; }
};

inline constexpr Float8Format kF143{"f143", 3, 8};
inline constexpr Float8Format kF152{"f152", 2, 16};
inline constexpr std::uint8_t kFloat8NaN = 0x80;

/// Whether a number beyond the largest one becomes that number or NaN.
enum class Overflow : std::uint8_t { Clip, NaN };

/// Rounds to the nearest number of the format, ties to even; 0 has no sign.
std::uint8_t toFloat8(double x, const Float8Format& format, Overflow overflow = Overflow::Clip);
double fromFloat8(std::uint8_t bits, const Float8Format& format);

/// The format that the attribute `format` names; throws InvalidArgument for an unknown name.
const Float8Format& float8FormatOf(const ir::OpView& op);
/// Throws InvalidArgument unless operand 1 is a single integer.
void requireLog2Scale(const ir::OpView& op);
/// Operand 1 of a run. Throws DeviceError unless it fits in the 6 bits that the vendor has.
int log2ScaleOf(const ir::KernelArgs& args);

}  // namespace sluice::ops
