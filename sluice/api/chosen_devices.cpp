#include "sluice/api/chosen_devices.h"

#include <algorithm>
#include <cstdlib>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/devices/sim/target.h"

namespace sluice {
namespace {

constexpr std::string_view kSimulated = "sim";
constexpr std::string_view kIpuModel = "sim@ipu2";

bool environmentWantsModel() {
  return isSwitchedOn("SLUICE_IPU_MODEL", "POPTORCH_IPU_MODEL");
}

}  // namespace

devices::DeviceList chosenDevices(const Options& options) {
  const DeviceOptions& device = options.device();
  if (!device.names.empty()) {
    devices::DeviceList list = devices::parseDevices(device.names);
    if (device.ipuModel.value_or(false) &&
        std::ranges::any_of(list.names, [](const auto& name) { return name.kind != kSimulated; })) {
      raise<InvalidArgument>(
          "useIpuModel(true) runs on simulated devices, and the options name '{}': leave one out",
          list.str());
    }
    return list;
  }
  const char* named = std::getenv("SLUICE_DEVICE");
  const bool fromEnvironment = named != nullptr && *named != '\0';
  if (device.ipuModel.value_or(!fromEnvironment && environmentWantsModel())) {
    return devices::parseDevices(kIpuModel);
  }
  return devices::chosenDevices("");
}

bool keepsIpuRules(const Options& options) {
  if (options.device().enforceIpuRules) {
    return *options.device().enforceIpuRules;
  }
  const devices::DeviceList list = chosenDevices(options);
  return std::ranges::any_of(list.names, [](const devices::DeviceName& name) {
    return name.kind == kSimulated && devices::sim::findTarget(name.target).ipuRules;
  });
}

}  // namespace sluice
