// The far device: runs the CPU's kernels, but hides its memory from the host. Its queues are
// threads that work while the caller continues, and copies take the time that its links give. It
// computes the same bits as the CPU. It shows on every machine that programs rely on nothing but
// the device interface.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/device/device.h"

namespace sluice::devices::far {

class OrderCheck;

struct FarDeviceOptions {
  int index = 0;
  int shares = 1;  ///< number of devices that share this index
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: not limited
  device::Tuning tuning = {};   ///< what the kernels would choose otherwise
  std::size_t alignment = 256;  ///< of buffers; a power of two, at least 64
  device::Link hostLink = {};   ///< between the host and this device
  device::Link peerLink = {};   ///< between far devices
  bool fuses = true;            ///< whether it has kernels for fused ops; other kinds may not
  std::shared_ptr<OrderCheck> orderCheck = nullptr;  ///< shared by all its peers; null: none
};

/// Throws InvalidArgument for fewer than 1 thread or an invalid alignment.
std::unique_ptr<device::Device> makeFarDevice(const FarDeviceOptions& options = {});

}  // namespace sluice::devices::far
