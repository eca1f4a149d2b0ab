// Which devices options ask for: by name, as the IPU model, or by the environment.
#pragma once

#include "sluice/api/options.h"
#include "sluice/devices/registry.h"

namespace sluice {

/// In this order: the names in the options, useIpuModel(true), SLUICE_DEVICE, SLUICE_IPU_MODEL=1
/// unless useIpuModel(false), else the CPU. Throws InvalidArgument if the IPU model is asked for
/// and other kinds are named, and as devices::chosenDevices does.
devices::DeviceList chosenDevices(const Options& options);

/// Whether the IPU's own limits apply: as the options say, else if the devices are simulated IPUs.
bool keepsIpuRules(const Options& options);

}  // namespace sluice
