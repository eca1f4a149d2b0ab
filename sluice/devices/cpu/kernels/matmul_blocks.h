// matmul of 16-bit floats that are only storage types: blocks of the operands are widened to
// float32 when they are multiplied, and a block of the result is rounded when its sums are
// complete. Scratch is a few blocks, however large the product is.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kBlocksConfig = "blocks";

/// Whether this is a product of 16-bit floats that the library does not multiply itself.
bool needsBlocks(const ir::OpView& op);
device::Choice chooseBlocks(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeBlocks(const ir::OpView& op, const device::Choice& choice);

}  // namespace sluice::devices::cpu
