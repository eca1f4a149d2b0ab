// matmul with vector code of our own (vector_product.h): for products so small that calling the
// library takes as long as the work, and for tall products that are limited by memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kVectorsConfig = "vectors";
/// The same, with the right operand packed in oneDNN's format; divided by columns.
inline constexpr const char* kPackedVectorsConfig = "vectors packed";

/// Whether it supports the product with this config.
bool canMultiplyByVectors(const ir::OpView& op, std::string_view config = kVectorsConfig);
/// The config with which it is faster than oneDNN's code, which would divide the product by `cut`;
/// empty if there is none.
std::string likedVectors(const ir::OpView& op, const std::string& cut);
device::Choice chooseVectors(const ir::OpView& op, const std::string& config);
std::unique_ptr<TiledKernel> makeVectors(const ir::OpView& op, const device::Choice& choice);

}  // namespace sluice::devices::cpu
