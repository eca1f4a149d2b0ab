// Measures what a device does per second. It uses only the device interface, so it works for every
// kind. The figures depend on what else the machine does at the time and are meant for people:
// nothing that is compiled may depend on them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/device/device.h"

namespace sluice::devices {

struct MeasureOptions {
  device::Clock clock = device::steadyNanoseconds;
  double secondsEach = 0.02;    ///< time for each figure, or three runs if they take longer
  std::int64_t largest = 4096;  ///< maximum rows and columns of the matrices
  std::size_t copyBytes = std::size_t{32} << 20U;
};

/// The best of several runs each; 0 if the device cannot do it.
struct Measured {
  device::ComputeRates rates;         ///< of products of square matrices
  double memoryBytesPerSecond = 0;    ///< reads and writes of a copy within its memory
  double fromHostBytesPerSecond = 0;  ///< of copies from pinned memory
  double toHostBytesPerSecond = 0;    ///< of copies to pinned memory
  double launchSeconds = 0;           ///< of a kernel with almost no work
};

/// Throws OutOfMemory if its budget is too small for copyBytes twice, and what its queue throws.
Measured measureRates(device::Device& device, const MeasureOptions& options = {});

}  // namespace sluice::devices
