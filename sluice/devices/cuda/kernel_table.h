// The list of the device's kernels. Private to the device and its tests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cuda/kernel.h"

namespace sluice::devices::cuda {

/// All kernels, sorted by op.
std::span<const KernelEntry> kernelEntries();

/// What a GPU of a compute capability has.
enum class TensorCores : std::uint8_t {
  Half,  ///< float16 alone, before 8.0
  All
};

/// Entries for all kernels and, behind them, for ops that the host runs: every op with a reference
/// that is not replaced by its parts.
std::vector<device::KernelEntry> tableEntries(TensorCores cores = TensorCores::All);

/// The entry that a Choice names; throws Unsupported if there is none.
const KernelEntry& entryOf(const ir::OpView& op, const device::Choice& choice);

/// Makes the kernel of a Choice from a table of these entries.
std::unique_ptr<Kernel> makeKernel(const ir::OpView& op,
                                   const device::Choice& choice,
                                   const MakeContext& context);

}  // namespace sluice::devices::cuda
