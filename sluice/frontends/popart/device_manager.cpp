#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/hold.h"
#include "sluice/devices/registry.h"
#include "sluice/frontends/popart/session.h"

namespace sluice {
namespace {

constexpr std::string_view kDefaultKind = "cpu";

}  // namespace

MultiDevice::MultiDevice(std::string kind,
                         std::int64_t count,
                         SyncPattern pattern,
                         std::shared_ptr<const devices::HeldDevices> hold)
    : kindIsSaid_(!kind.empty()),
      kind_(kindIsSaid_ ? std::move(kind) : std::string(kDefaultKind)),
      count_(count),
      pattern_(pattern),
      ids_(hold ? hold->ids : std::vector<std::int32_t>()),
      hold_(std::move(hold)) {}

Options& MultiDevice::applyTo(Options& options) const {
  if (hold_ == nullptr) {
    raise<InvalidArgument>(
        "these {} devices of kind '{}' were released: acquire devices anew", count_, kind_);
  }
  const std::int64_t replicas = options.replicationFactor();
  if (count_ % replicas != 0) {
    raise<InvalidArgument>(
        "{} devices cannot be shared equally by {} replicas: acquire a multiple of them",
        count_,
        replicas);
  }
  if (kindIsSaid_) {
    options.device(kind_);
  }
  if (ids_.empty()) {
    options.autoSelectDevices(count_, count_ / replicas);
  } else {
    options.selectDevices({ids_.begin(), ids_.end()}, count_ / replicas);
  }
  return options.syncPattern(pattern_).holdDevices(hold_);
}

MultiDevice DeviceManager::acquireAvailableDevice(std::int64_t count,
                                                  SyncPattern pattern,
                                                  std::string_view kind) const {
  if (count < 1) {
    raise<InvalidArgument>("acquireAvailableDevice: expected a count from 1 on, got {}", count);
  }
  const std::string_view wanted = kind.empty() ? kDefaultKind : kind;
  for (const devices::KindInfo& info : devices::deviceKinds()) {
    if (info.name == wanted.substr(0, wanted.find('@'))) {
      static_cast<void>(devices::parseDevices(wanted));  // a target that there is not
      return {std::string(kind), count, pattern, devices::holdDevices(info, count)};
    }
  }
  raise<DeviceError>(
      "no {} devices of kind '{}' are available; `sluice devices` lists those that are",
      count,
      wanted);
}

MultiDevice DeviceManager::createIpuModelDevice(std::int64_t count, std::string_view target) const {
  return acquireAvailableDevice(count, SyncPattern::Full, fmt::format("sim@{}", target));
}

}  // namespace sluice
