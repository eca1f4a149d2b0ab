// Devices that a program has acquired: while it holds them, nobody else in the process can acquire
// them. Kinds with an unlimited number of devices are not counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/devices/registry.h"

namespace sluice::devices {

/// The devices that are held together.
struct HeldDevices {
  std::string kind;
  std::int64_t count = 0;
  std::vector<std::int32_t> ids;  ///< numbers of the devices; empty for a kind that is not counted
};

/// Returns the devices when its last copy is destroyed.
using Hold = std::shared_ptr<const HeldDevices>;

/// How many devices of the kind are not held; unlimited for a kind that is not counted.
std::int64_t freeDevices(const KindInfo& kind);
/// Takes the first devices that are free. Throws DeviceError, which says why, if fewer than `count`
/// are free.
Hold holdDevices(const KindInfo& kind, std::int64_t count);

}  // namespace sluice::devices
