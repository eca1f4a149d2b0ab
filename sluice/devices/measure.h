// What a device does per second, found by running it through the device interface alone, so for
// devices of every kind. It says what the device does now, with what else the machine does: it is
// for people to read. Nothing that is compiled may depend on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/device/device.h"

namespace sluice::devices {

struct MeasureOptions {
  device::Clock clock = device::steadyNanoseconds;
  double secondsEach = 0.02;    ///< of each figure, or one run if that takes longer
  std::int64_t largest = 4096;  ///< rows and columns of the matrices, at most
  std::size_t copyBytes = std::size_t{32} << 20U;
};

/// The best of several runs each; 0: the device cannot do it.
struct Measured {
  device::ComputeRates rates;         ///< of products of square matrices
  double memoryBytesPerSecond = 0;    ///< read and written by a copy in its memory
  double fromHostBytesPerSecond = 0;  ///< of copies from pinned memory
  double toHostBytesPerSecond = 0;    ///< of copies to pinned memory
  double launchSeconds = 0;           ///< of a kernel that has next to nothing to do
};

/// Throws OutOfMemory if its budget is too small for copyBytes twice, and what its queue throws.
Measured measureRates(device::Device& device, const MeasureOptions& options = {});

}  // namespace sluice::devices
