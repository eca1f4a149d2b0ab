// Sliding windows over one to three spatial axes, shared by convolution and pooling. Every window
// is extended to three axes so that loops are written once: the missing leading axes have extent,
// kernel and stride 1 and no padding.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

using Extents = std::array<std::int64_t, 3>;

struct WindowDims {
  std::size_t rank = 0;  ///< given spatial axes; they are the last `rank` entries below
  Extents in = {1, 1, 1};
  Extents out = {1, 1, 1};
  Extents kernel = {1, 1, 1};
  Extents strides = {1, 1, 1};
  Extents padsBefore = {0, 0, 0};
  Extents padsAfter = {0, 0, 0};
  Extents dilations = {1, 1, 1};

  std::int64_t inSize() const { return in[0] * in[1] * in[2]; }
  std::int64_t outSize() const { return out[0] * out[1] * out[2]; }
  std::int64_t kernelSize() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// The input coordinate under position k of window o; outside [0, in) it is padding.
  std::int64_t position(std::size_t axis, std::int64_t o, std::int64_t k) const {
    return o * strides[axis] - padsBefore[axis] + k * dilations[axis];
  }
};

enum class Rounding : std::uint8_t { Floor, Ceil };

/// Reads strides, pads and dilations (if the op has them), and computes the output extents of
/// windows of extent `kernel` over the axes of `input` from 2 on. Rounding up adds a last, partial
/// window only if it starts inside the input or the padding before it. Throws InvalidArgument.
WindowDims windowDims(const ir::OpView& op,
                      const Shape& input,
                      std::span<const std::int64_t> kernel,
                      Rounding rounding);

/// The shape [batch, channels, out...].
Shape windowShape(const WindowDims& d, std::int64_t batch, std::int64_t channels);

/// Calls f(input offset, kernel offset, output offset) for every window position that lies inside
/// the input; offsets are within one image, one kernel and one output map.
template <class F>
void forEachTap(const WindowDims& d, F f) {
  const std::int64_t outputs = d.out[0] * d.out[1] * d.out[2];
  for (std::int64_t output = 0; output < outputs; ++output) {
    const std::int64_t o2 = output % d.out[2];
    const std::int64_t o1 = output / d.out[2] % d.out[1];
    const std::int64_t o0 = output / d.out[2] / d.out[1];
    for (std::int64_t k = 0; k < d.kernelSize(); ++k) {
      const std::int64_t i2 = d.position(2, o2, k % d.kernel[2]);
      const std::int64_t i1 = d.position(1, o1, k / d.kernel[2] % d.kernel[1]);
      const std::int64_t i0 = d.position(0, o0, k / d.kernel[2] / d.kernel[1]);
      if (i0 >= 0 && i0 < d.in[0] && i1 >= 0 && i1 < d.in[1] && i2 >= 0 && i2 < d.in[2]) {
        f((i0 * d.in[1] + i1) * d.in[2] + i2, k, output);
      }
    }
  }
}

}  // namespace sluice::ops
