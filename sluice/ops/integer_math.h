// Scalar functions that references and device kernels share: remainders and bit operations in the
// wide types of elementwise.h. Integers never trap: a remainder by zero is 0, a shift by at least
// the width (or by a negative number) leaves nothing.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace sluice::ops {

/// x - y * trunc(x / y): the sign is that of x.
template <class W>
W truncatedRemainder(W x, W y) {
  if constexpr (std::is_floating_point_v<W>) {
    return std::fmod(x, y);
  } else {
    if (y == W{}) {
      return W{};
    }
    if constexpr (std::is_signed_v<W>) {
      if (y == W{-1}) {
        return W{};  // the lowest number by -1 traps
      }
    }
    return static_cast<W>(x % y);
  }
}

/// x - y * floor(x / y): the sign is that of y.
template <class W>
W flooredRemainder(W x, W y) {
  const W rest = truncatedRemainder(x, y);
  const bool otherSign = rest != W{} && (rest < W{}) != (y < W{});
  return otherSign ? static_cast<W>(rest + y) : rest;
}

/// Integers only; the bits that leave on the left are cut by the narrower type.
template <class W>
W shiftedLeft(W x, W bits) {
  if (bits < W{} || bits >= W{64}) {
    return W{};
  }
  return static_cast<W>(static_cast<std::uint64_t>(x) << static_cast<std::uint64_t>(bits));
}

/// Integers only; negative numbers keep their sign.
template <class W>
W shiftedRight(W x, W bits) {
  if (bits < W{} || bits >= W{64}) {
    return x < W{} ? static_cast<W>(-1) : W{};
  }
  return static_cast<W>(x >> bits);
}

}  // namespace sluice::ops
