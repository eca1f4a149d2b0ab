// Functions that tell which devices there are and acquire them.
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

/// One entry for each kind of device that this build supports; its description names the
/// instruction set in use. Devices of kind "cpu" are made on demand, in any number.
std::vector<device::DeviceInfo> availableDevices();
/// Whether a model can get this many devices of a kind in addition to those that are held. Throws
/// InvalidArgument for a count below 1.
bool devicesAreAvailable(std::int64_t count = 1, std::string_view kind = "cpu");

/// Several devices of a kind for one model, and the pattern in which they meet at barriers. The
/// devices are held until the last copy of this object is destroyed or released.
class MultiDevice {
 public:
  MultiDevice(std::string kind, std::int64_t count, SyncPattern pattern, devices::Hold hold)
      : kind_(std::move(kind)), count_(count), pattern_(pattern), hold_(std::move(hold)) {}

  const std::string& kind() const { return kind_; }
  std::int64_t count() const { return count_; }
  SyncPattern pattern() const { return pattern_; }
  /// Gives the devices back so that others may acquire them.
  void release() { hold_.reset(); }
  /// Makes a model with these options run on these devices; each replica gets an equal share.
  /// Throws InvalidArgument if they cannot be shared equally.
  Options& applyTo(Options& options) const;

 private:
  std::string kind_;
  std::int64_t count_;
  SyncPattern pattern_;
  devices::Hold hold_;
};

/// Acquires devices the PopART way:
///
///   DeviceManager().acquireAvailableDevice(4).applyTo(options);
class DeviceManager {
 public:
  /// Throws InvalidArgument for a count below 1, and DeviceError if fewer devices exist or are
  /// free.
  MultiDevice acquireAvailableDevice(std::int64_t count = 1,
                                     SyncPattern pattern = SyncPattern::Full,
                                     std::string_view kind = "cpu") const;
};

/// True while forward is traced for a device, false in ordinary code, so that code can branch.
inline bool isRunningOnDevice() {
  return nn::Tracer::active();
}

}  // namespace sluice
