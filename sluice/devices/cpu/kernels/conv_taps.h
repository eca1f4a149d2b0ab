// conv and conv_grad_input as matrix products, with vector code of our own. In channels-last
// storage pixels are the rows of a matrix, and every tap of the window multiplies lines of pixels
// by its own matrix of weights. A window of one pixel is a single product.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kTapsConfig = "taps";

/// Whether it supports the op.
bool canMultiplyTaps(const ir::OpView& op);
/// Whether it is faster than oneDNN's code.
bool likesTaps(const ir::OpView& op);
device::Choice chooseTaps(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeTaps(const ir::OpView& op);

}  // namespace sluice::devices::cpu
