// The list of the CPU's own kernels, and the tuning table that is shipped with them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

/// All kernels, without the references of ops.
std::span<const KernelEntry> kernelEntries();

/// The table's last line: plain loops of the op itself.
extern const KernelEntry kReferenceEntry;

/// What the CPU's kernels and references serve, for the table of a device that computes with them.
std::vector<device::KernelEntry> tableEntries();

/// The kernel of a Choice that a table of these entries gave; throws Unsupported if it no longer
/// would.
std::unique_ptr<Kernel> makeKernel(const ir::OpView& op, const device::Choice& choice);

/// The shipped table for this processor's instruction set, with entries of `overrides` replaced.
device::Tuning mergedTuning(const device::Tuning& overrides);

/// Instruction set and library versions: the scope of bit equality.
std::string describeCpu();

}  // namespace sluice::devices::cpu
