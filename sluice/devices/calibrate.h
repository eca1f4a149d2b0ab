// Fills the target "measured" from a device of this machine, so that simulated devices have its
// rates. Only kernels, copies and the way from one thread to another are measured, each alone; how
// long a step takes is left to the simulator.
#pragma once

#include "sluice/device/device.h"
#include "sluice/devices/measure.h"
#include "sluice/devices/sim/target.h"

namespace sluice::devices {

/// Throws what measureRates throws.
sim::SimTarget calibrate(device::Device& device, const MeasureOptions& options = {});

}  // namespace sluice::devices
