// Which devices serve the lanes of a Program. Private to the runtime module.
#pragma once

#include <span>

#include "sluice/device/device.h"
#include "sluice/program/program.h"

namespace sluice::runtime {

/// The device whose queue runs the tasks of a lane. Throws Unsupported if data would go between two
/// kinds neither of which can read the memory of the other.
device::Device& queueDevice(const program::Lane& lane, std::span<device::Device* const> devices);

/// Throws InternalError if the program was lowered for other devices: the host's data reaches an
/// asynchronous device only through pinned memory.
void requireStaged(const program::Program& program, std::span<device::Device* const> devices);

}  // namespace sluice::runtime
