// The CPU device: a team of threads with its own memory budget. Matrix products, convolutions and
// pooling by oneDNN, everything else by vector code; what has no kernel of its own runs the op's
// reference. Results do not depend on the number of threads (rule R3).
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/device/device.h"

namespace sluice::devices::cpu {

struct CpuDeviceOptions {
  int index = 0;
  int shares = 1;  ///< of the name that it was asked for by
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: not limited
  device::Tuning tuning = {};   ///< overrides entries of the shipped table
  bool referenceOnly = false;   ///< every op by its reference kernel: for tests
};

/// Throws InvalidArgument for fewer than 1 thread.
std::unique_ptr<device::Device> makeCpuDevice(const CpuDeviceOptions& options = {});

/// The table alone, for compiling without a device.
const device::KernelTable& cpuKernelTable();

}  // namespace sluice::devices::cpu
