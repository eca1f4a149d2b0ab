// Questions about devices, for programs that decide by the answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/device/device.h"
#include "sluice/devices/hold.h"
#include "sluice/nn/tracer.h"

namespace sluice {

/// One entry per kind of device that this build can make; a kind's description names the
/// instructions it uses. Devices of kind "cpu" are made on demand, any number of them.
std::vector<device::DeviceInfo> availableDevices();
/// Whether a model can have this many devices of a kind, beside those that are held. Throws
/// InvalidArgument for a count below 1.
bool devicesAreAvailable(std::int64_t count = 1, std::string_view kind = "cpu");

/// Several devices of a kind that one model runs on, and which of them meet at barriers. They are
/// held until the last copy of it ends, or is released.
class MultiDevice {
 public:
  MultiDevice(std::string kind, std::int64_t count, SyncPattern pattern, devices::Hold hold)
      : kind_(std::move(kind)), count_(count), pattern_(pattern), hold_(std::move(hold)) {}

  const std::string& kind() const { return kind_; }
  std::int64_t count() const { return count_; }
  SyncPattern pattern() const { return pattern_; }
  /// Others may acquire them.
  void release() { hold_.reset(); }
  /// Runs a model on these devices: each of its replicas has an equal share of them. Throws
  /// InvalidArgument unless they can be shared equally.
  Options& applyTo(Options& options) const;

 private:
  std::string kind_;
  std::int64_t count_;
  SyncPattern pattern_;
  devices::Hold hold_;
};

/// Devices the PopART way:
///
///   DeviceManager().acquireAvailableDevice(4).applyTo(options);
class DeviceManager {
 public:
  /// Throws InvalidArgument for a count below 1, DeviceError when so many are not there, or held.
  MultiDevice acquireAvailableDevice(std::int64_t count = 1,
                                     SyncPattern pattern = SyncPattern::Full,
                                     std::string_view kind = "cpu") const;
};

/// True while forward is traced for a device, false in ordinary code: lets it branch.
inline bool isRunningOnDevice() {
  return nn::Tracer::active();
}

}  // namespace sluice
