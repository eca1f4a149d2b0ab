// What a kernel costs on a target: measured, if the target has it, else the longer of arithmetic
// and memory traffic. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/device/device.h"
#include "sluice/devices/sim/target.h"

namespace sluice::devices::sim {

/// Tells kernels apart that may take different times: op, attributes, types and Choice. The same on
/// every machine.
std::string kernelKey(const device::KernelCall& call);

std::int64_t kernelTicks(const SimTarget& target, const device::KernelCall& call);

}  // namespace sluice::devices::sim
