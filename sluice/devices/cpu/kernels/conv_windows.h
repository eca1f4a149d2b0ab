// conv, and conv_grad_input without strides, as products of gathered windows with panels of
// weights: the windows of some pixels are copied side by side, a stretch of them at a time, and
// multiplied while they are in cache. Tiles are ranges of pixels and of channels, so a single image
// serves many threads. For convolutions with so many channels that copying costs little. Padding is
// multiplied as zeros: with weights that are not finite, pixels at the edge become NaN.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kWindowsConfig = "windows";

/// Whether it supports the op.
bool canGatherWindows(const ir::OpView& op);
/// Whether it is the best way.
bool likesWindows(const ir::OpView& op);
device::Choice chooseWindows(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeWindows(const ir::OpView& op);

}  // namespace sluice::devices::cpu
