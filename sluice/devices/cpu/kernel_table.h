// The list of the CPU's own kernels, and the tuning table that is shipped with them.
#pragma once

#include <span>
#include <string>

#include "sluice/device/kernel.h"

namespace sluice::devices::cpu {

std::span<const device::KernelEntry> kernelEntries();

/// The shipped table for this processor's instruction set, with entries of `overrides` replaced.
device::Tuning mergedTuning(const device::Tuning& overrides);

/// Instruction set and library versions: the scope of bit equality.
std::string describeCpu();

}  // namespace sluice::devices::cpu
