#include "sluice/devices/hold.h"

#include <limits>
#include <map>
#include <mutex>
#include <string>

#include "sluice/base/error.h"

namespace sluice::devices {
namespace {

struct Held {
  std::mutex mutex;
  std::map<std::string, std::int64_t, std::less<>> counts;  // by kind
};

Held& held() {
  static Held all;
  return all;
}

/// Of the kind and not held; the mutex is locked.
std::int64_t left(const Held& all, const KindInfo& kind) {
  if (!kind.unusable.empty()) {
    return 0;
  }
  if (!kind.count) {
    return std::numeric_limits<std::int64_t>::max();
  }
  const auto taken = all.counts.find(kind.name);
  return *kind.count - (taken == all.counts.end() ? 0 : taken->second);
}

}  // namespace

std::int64_t freeDevices(const KindInfo& kind) {
  Held& all = held();
  const std::scoped_lock lock(all.mutex);
  return left(all, kind);
}

Hold holdDevices(const KindInfo& kind, std::int64_t count) {
  Held& all = held();
  const std::scoped_lock lock(all.mutex);
  if (!kind.unusable.empty()) {
    raise<DeviceError>("devices of kind '{}' cannot be used here: {}", kind.name, kind.unusable);
  }
  const std::int64_t free = left(all, kind);
  if (count > free) {
    raise<DeviceError>("no {} devices of kind '{}' are available: there are {}, {} of them held",
                       count,
                       kind.name,
                       *kind.count,
                       *kind.count - free);
  }
  const std::string name(kind.name);
  all.counts[name] += count;
  const auto giveBack = [name, count](const void*) {
    const std::scoped_lock again(held().mutex);
    held().counts[name] -= count;
  };
  return {&all, giveBack};
}

}  // namespace sluice::devices
