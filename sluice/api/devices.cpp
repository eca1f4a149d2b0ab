#include "sluice/api/devices.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"

namespace sluice {

std::vector<device::DeviceInfo> availableDevices() {
  return {devices::cpu::makeCpuDevice()->info()};
}

bool devicesAreAvailable(std::int64_t count, std::string_view kind) {
  if (count < 1) {
    raise<InvalidArgument>("devicesAreAvailable: expected a count from 1 on, got {}", count);
  }
  return std::ranges::any_of(availableDevices(),
                             [&](const device::DeviceInfo& info) { return info.kind == kind; });
}

}  // namespace sluice
