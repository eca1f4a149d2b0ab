// The factories of all CPU kernels, one or two per file of this folder; kernel_table.cpp lists
// them.
#pragma once

#include <memory>

#include "sluice/device/kernel.h"

namespace sluice::devices::cpu {

// elementwise.cpp: every element-wise op, and fused
bool supportsElementwise(const ir::OpView& op);
device::Choice chooseElementwise(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<device::Kernel> makeElementwise(const ir::OpView& op, const device::Choice& choice);
// matmul.cpp
bool supportsMatMul(const ir::OpView& op);
device::Choice chooseMatMul(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<device::Kernel> makeMatMul(const ir::OpView& op, const device::Choice& choice);

// reorder.cpp
std::unique_ptr<device::Kernel> makeReorder(const ir::OpView& op, const device::Choice& choice);

}  // namespace sluice::devices::cpu
