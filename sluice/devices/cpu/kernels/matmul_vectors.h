// matmul by our own vector code (vector_product.h): for products so small that a call of the
// library costs as much as the work, and for tall ones that are as fast as memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kVectorsConfig = "vectors";
/// The same with the right operand packed as oneDNN would have it; cut by columns.
inline constexpr const char* kPackedVectorsConfig = "vectors packed";

/// Whether it can do the product at all, with this config.
bool canMultiplyByVectors(const ir::OpView& op, std::string_view config = kVectorsConfig);
/// The config for which it is quicker than oneDNN's code, which would cut the product like this;
/// empty if none is.
std::string likedVectors(const ir::OpView& op, const std::string& cut);
device::Choice chooseVectors(const ir::OpView& op, const std::string& config);
std::unique_ptr<TiledKernel> makeVectors(const ir::OpView& op, const device::Choice& choice);

}  // namespace sluice::devices::cpu
