// The list of the CPU's own kernels, and the tuning table that ships with them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

/// All kernels except the references of ops.
std::span<const KernelEntry> kernelEntries();

/// The table's last line: runs the op's own reference.
extern const KernelEntry kReferenceEntry;

/// Entries for all kernels and references of the CPU, for the table of a device that uses them.
std::vector<device::KernelEntry> tableEntries();

/// Makes the kernel of a Choice from a table of these entries; throws Unsupported if that Choice
/// would now be different.
std::unique_ptr<Kernel> makeKernel(const ir::OpView& op, const device::Choice& choice);

/// The instruction set and library versions: the scope of bit equality.
std::string describeCpu();

}  // namespace sluice::devices::cpu
