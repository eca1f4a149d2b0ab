// Which devices serve the lanes of a Program. Private to the runtime module.
#pragma once

#include <span>

#include "sluice/device/device.h"
#include "sluice/program/program.h"

namespace sluice::runtime {

/// Whose queue runs the tasks of a lane. Throws Unsupported if data would have to go between two
/// kinds neither of which can read the memory of the other.
device::Device& queueDevice(const program::Lane& lane, std::span<device::Device* const> devices);

/// The host's data reaches a device that works by itself only through pinned memory: throws
/// InternalError for a program that was lowered for other devices.
void requireStaged(const program::Program& program, std::span<device::Device* const> devices);

}  // namespace sluice::runtime
