#include "sluice/devices/hold.h"

#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "sluice/base/error.h"

namespace sluice::devices {
namespace {

struct Taken {
  std::mutex mutex;
  std::map<std::string, std::set<std::int32_t>, std::less<>> ids;  // by kind
};

Taken& taken() {
  static Taken all;
  return all;
}

/// The number of devices of the kind that are not held. The mutex must be locked.
std::int64_t left(const Taken& all, const KindInfo& kind) {
  if (!kind.unusable.empty()) {
    return 0;
  }
  if (!kind.count) {
    return std::numeric_limits<std::int64_t>::max();
  }
  const auto found = all.ids.find(kind.name);
  return *kind.count - (found == all.ids.end() ? 0 : std::ssize(found->second));
}

/// Frees its devices when it is destroyed.
struct TakenDevices : HeldDevices {
  TakenDevices() = default;
  ~TakenDevices() {
    Taken& all = taken();
    const std::scoped_lock lock(all.mutex);
    for (const std::int32_t id : ids) {
      all.ids.find(kind)->second.erase(id);
    }
  }
  TakenDevices(const TakenDevices&) = delete;
  TakenDevices& operator=(const TakenDevices&) = delete;
};

}  // namespace

std::int64_t freeDevices(const KindInfo& kind) {
  Taken& all = taken();
  const std::scoped_lock lock(all.mutex);
  return left(all, kind);
}

Hold holdDevices(const KindInfo& kind, std::int64_t count) {
  if (!kind.unusable.empty()) {
    raise<DeviceError>("devices of kind '{}' cannot be used here: {}", kind.name, kind.unusable);
  }
  const auto devices = std::make_shared<TakenDevices>();
  devices->kind = kind.name;
  devices->count = count;
  Taken& all = taken();
  const std::scoped_lock lock(all.mutex);
  const std::int64_t free = left(all, kind);
  if (count > free) {
    raise<DeviceError>("no {} devices of kind '{}' are available: there are {}, {} of them held",
                       count,
                       kind.name,
                       *kind.count,
                       *kind.count - free);
  }
  if (kind.count) {
    std::set<std::int32_t>& ids = all.ids[devices->kind];
    for (std::int32_t id = 0; std::ssize(devices->ids) < count; ++id) {
      if (ids.insert(id).second) {
        devices->ids.push_back(id);
      }
    }
  }
  return devices;
}

}  // namespace sluice::devices
