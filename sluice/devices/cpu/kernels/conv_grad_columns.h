// conv_grad_weight as a matrix product: the windows of some images are copied into the rows of a
// matrix, which is multiplied with dy. If the output's channels do not fill vectors, oneDNN's code
// computes lanes of padding; this code does not.
#pragma once

#include <memory>

#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

inline constexpr const char* kColumnsConfig = "columns";

/// Whether it supports the op.
bool canUseColumns(const ir::OpView& op);
/// Whether it is faster than oneDNN's own code.
bool likesColumns(const ir::OpView& op);
device::Choice chooseColumns(const ir::OpView& op);
std::unique_ptr<Kernel> makeColumns(const ir::OpView& op);

}  // namespace sluice::devices::cpu
