// DeviceManager: devices acquired the PopART way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/options.h"

#pragma GCC visibility push(default)

namespace sluice::devices {
struct HeldDevices;
}

namespace sluice {

/// Several devices of a kind on which one model runs, and the pattern of barriers at which they
/// meet. The devices are held until two things have happened: the last copy of this object is
/// destroyed or released, and the last model that was made for the devices is destroyed.
class MultiDevice {
 public:
  /// An empty kind: none was said, and the devices are of kind "cpu".
  MultiDevice(std::string kind,
              std::int64_t count,
              SyncPattern pattern,
              std::shared_ptr<const devices::HeldDevices> hold);

  const std::string& kind() const { return kind_; }
  std::int64_t count() const { return count_; }
  SyncPattern pattern() const { return pattern_; }
  /// The numbers of these devices in the machine. Empty for a kind with an unlimited number of
  /// devices; a model then gets any of them.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// Ends the hold of this object. Others may acquire the devices once all options that they were
  /// applied to, and all models made with these options, are destroyed.
  void release() { hold_.reset(); }
  /// Makes a model run on these devices; each of its replicas gets an equal share of them. The
  /// options, and models made with them, also hold the devices. Throws InvalidArgument if the
  /// devices cannot be shared equally, and after release().
  Options& applyTo(Options& options) const;

 private:
  bool kindIsSaid_;
  std::string kind_;
  std::int64_t count_;
  SyncPattern pattern_;
  std::vector<std::int32_t> ids_;
  std::shared_ptr<const devices::HeldDevices> hold_;
};

/// Devices the PopART way:
///
///   DeviceManager().acquireAvailableDevice(4).applyTo(options);
class DeviceManager {
 public:
  /// Acquires devices; while they are held, no other call acquires them. Throws InvalidArgument for
  /// a count below 1, and DeviceError if fewer devices than that exist or are free. Without a kind
  /// they are CPU devices, unless the options that they are applied to name another kind.
  MultiDevice acquireAvailableDevice(std::int64_t count = 1,
                                     SyncPattern pattern = SyncPattern::Full,
                                     std::string_view kind = "") const;
};

}  // namespace sluice

#pragma GCC visibility pop
