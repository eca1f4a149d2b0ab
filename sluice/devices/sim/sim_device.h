// The simulated device ("IPU model"): computes with the CPU's kernels and has their bits, but has
// the memory, the clock and the rates of a target. How long a step takes there is not measured: the
// simulator works it out from the CostModel that the device is as well.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "sluice/device/device.h"
#include "sluice/devices/sim/target.h"

namespace sluice::devices::sim {

struct SimDeviceOptions {
  SimTarget target;
  int index = 0;
  int shares = 1;  ///< number of devices that share this index
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: that of the target; never more than it has
  device::Tuning tuning = {};   ///< what the kernels would choose otherwise
  /// Called before the first memory is given, and again after all was freed; the device has what it
  /// returns as long as any memory lives. Null: nothing.
  std::function<std::shared_ptr<const void>()> claim = nullptr;
};

/// Throws InvalidArgument for fewer than 1 thread.
std::unique_ptr<device::Device> makeSimDevice(const SimDeviceOptions& options);

}  // namespace sluice::devices::sim
