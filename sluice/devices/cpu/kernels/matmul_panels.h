// matmul of float32 matrices by blocks of panels (panel_product.h): the right operand is packed
// once, by all threads, or comes packed; then tiles of rows and panels are computed. It is as quick
// as the library on one thread and has tiles for many.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kPanelsConfig = "panels";
/// The same, with a right operand that comes packed, so that packing a weight can be hoisted.
inline constexpr const char* kPackedPanelsConfig = "panels packed";

/// Whether it supports the product.
bool canMultiplyPanels(const ir::OpView& op);
/// The config with which it is the best way; empty if it is not.
std::string likedPanels(const ir::OpView& op);
device::Choice choosePanels(const ir::OpView& op, const std::string& config);
std::unique_ptr<TiledKernel> makePanels(const ir::OpView& op, const device::Choice& choice);

}  // namespace sluice::devices::cpu
