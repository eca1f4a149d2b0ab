// matmul of few rows with a transposed right operand, which is read once and as it lies: packing it
// would take longer than the product. Tiles are ranges of columns.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kDotsConfig = "dots";

/// Whether it supports the product.
bool canMultiplyDots(const ir::OpView& op);
/// Whether it is the best way.
bool likesDots(const ir::OpView& op);
device::Choice chooseDots(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeDots(const ir::OpView& op);

}  // namespace sluice::devices::cpu
