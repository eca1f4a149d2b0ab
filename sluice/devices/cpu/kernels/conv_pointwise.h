// conv and conv_grad_input whose window is one pixel, without padding, as a product of matrices by
// our own vector code: in channels-last storage the pixels are the rows of a matrix.
#pragma once

#include <memory>

#include "sluice/device/kernel.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

inline constexpr const char* kPointwiseConfig = "pointwise";

/// Whether the op is of that kind.
bool isPointwise(const ir::OpView& op);
/// Whether this is quicker than oneDNN's code.
bool likesPointwise(const ir::OpView& op);
device::Choice choosePointwise(const ir::OpView& op);
std::unique_ptr<TiledKernel> makePointwise(const ir::OpView& op);

}  // namespace sluice::devices::cpu
