// Devices that a program has acquired: while it holds them, nobody else of the process gets them.
// Kinds of which there are any number are not counted.
#pragma once

#include <cstdint>
#include <memory>

#include "sluice/devices/registry.h"

namespace sluice::devices {

/// Gives the devices back when the last copy of it ends.
using Hold = std::shared_ptr<const void>;

/// How many devices of the kind nobody holds; any number for a kind that is not counted.
std::int64_t freeDevices(const KindInfo& kind);
/// Throws DeviceError, which says why, if there are not that many.
Hold holdDevices(const KindInfo& kind, std::int64_t count);

}  // namespace sluice::devices
