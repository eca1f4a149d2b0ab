#include "sluice/api/devices.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/devices/registry.h"

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

Options& MultiDevice::applyTo(Options& options) const {
  const std::int64_t replicas = options.replicationFactor();
  if (count_ % replicas != 0) {
    raise<InvalidArgument>(
        "{} devices cannot be shared equally by {} replicas: acquire a multiple of them",
        count_,
        replicas);
  }
  if (kind_ !=
      "cpu") {  // which is what one gets without naming a kind: it overrules nobody's choice
    options.device(kind_);
  }
  return options.autoSelectDevices(count_, count_ / replicas).syncPattern(pattern_);
}

MultiDevice DeviceManager::acquireAvailableDevice(std::int64_t count,
                                                  SyncPattern pattern,
                                                  std::string_view kind) const {
  if (count < 1) {
    raise<InvalidArgument>("acquireAvailableDevice: expected a count from 1 on, got {}", count);
  }
  for (const devices::KindInfo& info : devices::deviceKinds()) {
    if (info.name == kind) {
      return {std::string(kind), count, pattern, devices::holdDevices(info, count)};
    }
  }
  raise<DeviceError>(
      "no {} devices of kind '{}' are available; `sluice devices` lists those that are",
      count,
      kind);
}

}  // namespace sluice
