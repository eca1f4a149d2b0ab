// conv_grad_weight as a product of matrices: the windows of some images are copied out as the rows
// of a matrix, which dy is multiplied with. It computes no lanes that are only padding, which the
// generated code of oneDNN does where the output's channels fill their vectors badly.
#pragma once

#include <memory>

#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

inline constexpr const char* kColumnsConfig = "columns";

/// Whether it can do the op at all.
bool canUseColumns(const ir::OpView& op);
/// Whether it is quicker than oneDNN's own code.
bool likesColumns(const ir::OpView& op);
device::Choice chooseColumns(const ir::OpView& op);
std::unique_ptr<Kernel> makeColumns(const ir::OpView& op);

}  // namespace sluice::devices::cpu
