// How quick kernels could be at the highest rates of their devices, for traces with kernels.
#pragma once

#include <cstdint>

#include "sluice/device/device.h"
#include "sluice/devices/measure.h"
#include "sluice/devices/registry.h"
#include "sluice/profile/trace.h"

namespace sluice {

/// Seconds for the arithmetic of a kernel, or for what it reads and writes, whichever takes longer.
/// What was not measured (0) takes no time.
double limitSeconds(const devices::Measured& rates, const device::KernelCall& call);

/// Measures the rates of each kind of these devices by itself when a kernel of the kind is first
/// asked about, on a device of its own. Where that cannot be done, no limit is known.
profile::KernelLimit measuredLimits(const devices::DeviceList& devices, int threads);

}  // namespace sluice
