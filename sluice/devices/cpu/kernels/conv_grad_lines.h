// conv_grad_weight as matrix products over lines of pixels: for each tap, the transpose of dy times
// the pixels that the tap meets, both read where they lie. Tiles are taps, panels of the input's
// channels and blocks of the output's. For so many channels that a tap's matrix fills registers.
#pragma once

#include <memory>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

inline constexpr const char* kLinesConfig = "lines";

/// Whether it supports the op.
bool canMultiplyLines(const ir::OpView& op);
/// Whether it is the best way.
bool likesLines(const ir::OpView& op);
device::Choice chooseLines(const ir::OpView& op);
std::unique_ptr<Kernel> makeLines(const ir::OpView& op);

}  // namespace sluice::devices::cpu
