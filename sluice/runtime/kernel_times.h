// Times the kernels of a Program one by one on real devices. The kernels of a segment run in their
// order and on the memory of the plan, one micro-batch's after the other's, so that their operands
// are in the caches as they are in a step, but nothing else runs: no lanes, no waits, no copies.
#pragma once

#include <span>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"

namespace sluice::runtime {

struct KernelTime {
  const device::KernelCall* call = nullptr;  ///< of the program
  double seconds = 0;                        ///< median of the runs
};

/// `devices` has one for each device of the program. Throws what the devices throw.
std::vector<KernelTime> measureKernels(const program::Program& program,
                                       std::span<device::Device* const> devices,
                                       int runs = 9,
                                       device::Clock clock = device::steadyNanoseconds);

}  // namespace sluice::runtime
