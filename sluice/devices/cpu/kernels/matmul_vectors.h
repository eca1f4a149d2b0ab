// matmul with vector code of our own (vector_product.h): for products so small that calling the
// library takes as long as the work, and for tall products that are limited by memory.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kVectorsConfig = "vectors";

/// Whether it supports the product.
bool canMultiplyByVectors(const ir::OpView& op);
/// Whether it is faster than other code.
bool likesVectors(const ir::OpView& op);
device::Choice chooseVectors(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeVectors(const ir::OpView& op);

}  // namespace sluice::devices::cpu
