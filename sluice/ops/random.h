// Shared by the random op files. The numbers of an op depend only on (seed, its `ordinal`,
// micro-batch, element): rule R6.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "sluice/base/philox.h"
#include "sluice/ir/op_def.h"
#include "sluice/tensor/shape.h"

namespace sluice::ops {

/// Throws InvalidArgument unless the attribute `ordinal` fits a stream.
void requireOrdinal(const ir::OpView& op);

/// The numbers of one run of a random op.
RandomStream randomStream(const ir::KernelArgs& args);

/// The float type that the attributes `shape` and `dtype` name; throws InvalidArgument.
TensorType randomType(const ir::OpView& op);

/// Same as randomStream, for an op whose second operand, a float scalar, counts its runs.
RandomStream countedStream(const ir::KernelArgs& args);

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// Rounds `value` to one of its two neighbours in T (Float16 or BFloat16). It rounds away from zero
/// if the truncated part, as a fraction of the spacing, exceeds `word` as a fraction of 2^32; a
/// uniform `word` makes that fraction the probability. A value of T stays the same. A value beyond
/// T's largest number, and NaN, becomes the nearest value of T.
template <class T>
T roundStochastically(float value, std::uint32_t word) {
  static_assert(kIsHalf<T>);
  constexpr bool kIeee = std::is_same_v<T, Float16>;
  constexpr int kMantissa = kIeee ? 10 : 7;
  constexpr std::uint32_t kLowest = kIeee ? 113 : 1;  // exponent of the smallest normal number
  constexpr float kLargest = kIeee ? 65504.0F : 0x1.FEp127F;
  if (!(std::abs(value) < kLargest)) {
    return T(value);
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t field = bits >> 23 & 0xFFU;
  const std::uint32_t exponent = std::max(field, 1U);
  const std::uint32_t whole = (bits & 0x7FFFFFU) | (field == 0 ? 0U : 0x800000U);
  // Neighbours below the smallest normal number are as far apart as those just above it.
  const std::uint32_t drop = 23U - kMantissa + (exponent < kLowest ? kLowest - exponent : 0U);
  const std::uint32_t kept = drop < 32 ? whole >> drop : 0U;
  const std::uint32_t shift = std::min(drop, 31U);
  const std::uint64_t rest =
      std::uint64_t{whole - (drop < 32 ? kept << drop : 0U)} >> std::min(drop - shift, 63U);
  const bool up = (std::uint64_t{word} << shift) < (rest << 32);
  T result;
  result.bits = static_cast<std::uint16_t>((bits >> 16 & 0x8000U) +
                                           ((std::max(exponent, kLowest) - kLowest) << kMantissa) +
                                           kept + (up ? 1U : 0U));
  return result;
}

/// The cost of ten rounds of integer arithmetic per four elements, and of the conversion.
ir::Cost costOfRandom(const ir::OpView& op);

}  // namespace sluice::ops
