// Functions that tell which devices there are and what they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/device/device_info.h"

#pragma GCC visibility push(default)

namespace sluice {

/// One entry for each kind of device that this build supports; its description names the
/// instruction set in use. Devices of kind "cpu" are made on demand, in any number.
std::vector<device::DeviceInfo> availableDevices();
/// Whether a model can get this many devices of a kind in addition to those that are held. Throws
/// InvalidArgument for a count below 1.
bool devicesAreAvailable(std::int64_t count = 1, std::string_view kind = "cpu");
/// Describes the hardware of a device, given by its name ("cpu", "far:1"): the processor, its
/// instructions, and the versions of the libraries that drive it. Devices with the same description
/// give the same bits. Throws InvalidArgument for a device that does not exist, and DeviceError for
/// a kind that cannot be used here.
std::string deviceVersion(std::string_view name = "cpu");

/// True while forward is traced for a device, false in ordinary code: lets it branch.
bool isRunningOnDevice();

}  // namespace sluice

#pragma GCC visibility pop
