// What the vector code of softmax.cpp gets when the axis is not the last one: lines side by side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::devices::cpu {

/// Lines in one strip at most.
inline constexpr std::int64_t kSoftmaxColumns = 256;

/// For gradients `x` is the result of the forward op and `y` the gradient of its operand.
struct SoftmaxStrip {
  const float* x;
  const float* dy;
  float* y;
  std::int64_t rows;    ///< elements of a line
  std::int64_t stride;  ///< between them
  std::size_t columns;  ///< lines
};

}  // namespace sluice::devices::cpu
