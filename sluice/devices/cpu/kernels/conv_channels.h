// conv of single channels: every channel has windows and weights of its own. In channels-last
// storage a pixel is a sum of products of rows, one per tap. Tiles are lines of the output.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kChannelsConfig = "channels";

/// Whether it supports the op.
bool canSumChannels(const ir::OpView& op);
/// Whether it is the best way.
bool likesChannels(const ir::OpView& op);
device::Choice chooseChannels(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeChannels(const ir::OpView& op);

}  // namespace sluice::devices::cpu
