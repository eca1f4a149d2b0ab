// The far device: the CPU's kernels on the other side of a wall. The host cannot read its memory,
// its queues are threads that work while the caller goes on, and data takes as long to reach it as
// its links say. It gives the CPU's bits. It shows on every machine that programs rely on nothing
// but the device interface.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/device/device.h"

namespace sluice::devices::far {

class OrderCheck;

struct FarDeviceOptions {
  int index = 0;
  int shares = 1;  ///< among so many devices of this index it is shared
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: not limited
  device::Tuning tuning = {};   ///< overrides entries of the shipped table
  std::size_t alignment = 256;  ///< of buffers; a power of two from 64 on
  device::Link hostLink = {};   ///< between the host and this device
  device::Link peerLink = {};   ///< between far devices
  bool fuses = true;            ///< it has kernels for fused ops; other kinds have not for all
  std::shared_ptr<OrderCheck> orderCheck = nullptr;  ///< that of all its peers; null: none
};

/// Throws InvalidArgument for fewer than 1 thread or another alignment.
std::unique_ptr<device::Device> makeFarDevice(const FarDeviceOptions& options = {});

}  // namespace sluice::devices::far
