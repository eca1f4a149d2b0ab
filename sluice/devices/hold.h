// Devices that a program has acquired: while it holds them, no other part of the process can get
// them. Kinds with an unlimited number of devices are not counted.
#pragma once

#include <cstdint>
#include <memory>

#include "sluice/devices/registry.h"

namespace sluice::devices {

/// Returns the devices when its last copy is destroyed.
using Hold = std::shared_ptr<const void>;

/// How many devices of the kind are not held; unlimited for a kind that is not counted.
std::int64_t freeDevices(const KindInfo& kind);
/// Throws DeviceError, which says why, if fewer than `count` devices are free.
Hold holdDevices(const KindInfo& kind, std::int64_t count);

}  // namespace sluice::devices
