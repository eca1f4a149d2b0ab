// matmul by our own vector code (vector_product.h): for products so small that a call of the
// library costs as much as the work, and for tall ones that are as fast as memory.
#pragma once

#include <memory>

#include "sluice/device/kernel.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kVectorsConfig = "vectors";

/// Whether it can do the product at all.
bool canMultiplyByVectors(const ir::OpView& op);
/// Whether it is quicker than oneDNN's code.
bool likesVectors(const ir::OpView& op);
device::Choice chooseVectors(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeVectors(const ir::OpView& op);

}  // namespace sluice::devices::cpu
