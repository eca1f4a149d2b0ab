// The table of kinds that the registry uses. Private to registry.cpp and to tests that add their
// own kinds, such as a kind that cannot be used here or one with few devices.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/devices/registry.h"

namespace sluice::devices {

struct Kind {
  std::string_view name;
  std::string_view summary;
  std::string (*unusable)();      ///< why it cannot be used here; empty: it can
  std::optional<int> (*count)();  ///< devices of the machine; none: made on demand, without limit
  std::unique_ptr<device::Device> (*make)(const DeviceRequest&);
  /// Throws for a target that does not exist; null: the kind has no targets.
  void (*checkTarget)(std::string_view) = nullptr;
};

// The functions of registry.h, for the kinds of a table.
DeviceList parseDevices(std::string_view text, std::span<const Kind> kinds);
std::vector<KindInfo> deviceKinds(std::span<const Kind> kinds);
std::unique_ptr<device::Device> makeDevice(const DeviceRequest& request,
                                           std::span<const Kind> kinds);

}  // namespace sluice::devices
