#include "sluice/api/devices.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/devices/hold.h"
#include "sluice/devices/registry.h"
#include "sluice/nn/tracer.h"

namespace sluice {

std::vector<device::DeviceInfo> availableDevices() {
  std::vector<device::DeviceInfo> all;
  for (const devices::KindInfo& kind : devices::deviceKinds()) {
    if (kind.unusable.empty()) {
      all.push_back(kind.info);
    }
  }
  return all;
}

bool devicesAreAvailable(std::int64_t count, std::string_view kind) {
  if (count < 1) {
    raise<InvalidArgument>("devicesAreAvailable: expected a count from 1 on, got {}", count);
  }
  return std::ranges::any_of(devices::deviceKinds(), [&](const devices::KindInfo& info) {
    return info.name == kind && count <= devices::freeDevices(info);
  });
}

std::string deviceVersion(std::string_view name) {
  return devices::makeDevice({.name = devices::parseDevices(name).at(0)})->info().description;
}

bool isRunningOnDevice() {
  return nn::Tracer::active();
}

}  // namespace sluice
