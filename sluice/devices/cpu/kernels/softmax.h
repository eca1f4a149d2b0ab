// The data for the vector code of softmax.cpp if the axis is not the last one: adjacent lines.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::devices::cpu {

/// The maximum number of lines in one strip.
inline constexpr std::int64_t kSoftmaxColumns = 256;

/// For gradients `x` is the result of the forward op and `y` the gradient of its operand.
struct SoftmaxStrip {
  const float* x;
  const float* dy;
  float* y;
  std::int64_t rows;    ///< elements of a line
  std::int64_t stride;  ///< from one element of a line to the next
  std::size_t columns;  ///< number of lines
};

}  // namespace sluice::devices::cpu
