// The CPU device: a team of threads with its own memory budget. oneDNN runs matrix products,
// convolutions and pooling; vector code runs everything else; an op without a kernel runs its
// reference. Results do not depend on the number of threads (rule R3).
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/device/device.h"

namespace sluice::devices::cpu {

struct CpuDeviceOptions {
  int index = 0;
  int shares = 1;  ///< number of devices that share the requested name
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: not limited
  device::Tuning tuning = {};   ///< what the kernels would choose otherwise
  bool referenceOnly = false;   ///< for tests: every op runs its reference kernel
};

/// Throws InvalidArgument for fewer than 1 thread.
std::unique_ptr<device::Device> makeCpuDevice(const CpuDeviceOptions& options = {});

/// The table alone, for compiling without a device.
const device::KernelTable& cpuKernelTable();

}  // namespace sluice::devices::cpu
