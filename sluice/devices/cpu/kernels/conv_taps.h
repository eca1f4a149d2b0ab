// conv and conv_grad_input as products of matrices by our own vector code: in channels-last storage
// pixels are the rows of a matrix, and every tap of the window multiplies lines of them with its
// own matrix of weights. For windows of one pixel that is all there is to it.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kTapsConfig = "taps";

/// Whether it can do the op at all.
bool canMultiplyTaps(const ir::OpView& op);
/// Whether this is quicker than oneDNN's code.
bool likesTaps(const ir::OpView& op);
device::Choice chooseTaps(const ir::OpView& op);
std::unique_ptr<TiledKernel> makeTaps(const ir::OpView& op);

}  // namespace sluice::devices::cpu
