// Scalar functions that references and device kernels share: arithmetic, remainders and bit
// operations in the wide types of elementwise.h. Integers never trap: results wrap, a quotient or
// remainder by zero is 0, and a shift by at least the width (or by a negative number) leaves
// nothing.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace sluice::ops {

/// Applies f to integers as unsigned numbers, so that results wrap, and to floats as they are.
template <class W, class F>
W wrapping(W x, W y, F f) {
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(f(static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)));
  } else {
    return f(x, y);
  }
}
template <class W>
W wrappedSum(W x, W y) {
  return wrapping(x, y, [](auto a, auto b) { return a + b; });
}
template <class W>
W wrappedDifference(W x, W y) {
  return wrapping(x, y, [](auto a, auto b) { return a - b; });
}
template <class W>
W wrappedProduct(W x, W y) {
  return wrapping(x, y, [](auto a, auto b) { return a * b; });
}
/// -x; for floats this also flips the sign of 0.
template <class W>
W wrappedNegative(W x) {
  if constexpr (std::is_floating_point_v<W>) {
    return -x;
  } else {
    return wrappedDifference(W{}, x);
  }
}

/// x / y; for integers 0 if y is 0.
template <class W>
W wrappedQuotient(W x, W y) {
  if constexpr (std::is_integral_v<W>) {
    if (y == W{}) {
      return W{};
    }
    if (std::is_signed_v<W> && y == static_cast<W>(-1)) {
      return wrappedNegative(x);  // the lowest number divided by -1 would trap
    }
  }
  return static_cast<W>(x / y);
}

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
        return W{};  // the lowest number divided by -1 would trap
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

/// Integers only; the narrower type cuts off bits that are shifted out on the left.
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
