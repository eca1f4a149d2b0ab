// Questions about devices, for programs that decide by the answer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/nn/tracer.h"

namespace sluice {

/// One entry per kind of device that this build can make; a kind's description names the
/// instructions it uses. Devices of kind "cpu" are made on demand, any number of them.
std::vector<device::DeviceInfo> availableDevices();
/// Whether a model can have this many devices of a kind. Throws InvalidArgument for a count
/// below 1.
bool devicesAreAvailable(std::int64_t count = 1, std::string_view kind = "cpu");

/// True while forward is traced for a device, false in ordinary code: lets it branch.
inline bool isRunningOnDevice() {
  return nn::Tracer::active();
}

}  // namespace sluice
