#include "sluice/devices/pool.h"

#include <algorithm>
#include <utility>

#include "sluice/base/error.h"

namespace sluice::devices {

DevicePool::DevicePool(DeviceList list, std::vector<std::int32_t> ids, DeviceRequest common)
    : list_(std::move(list)), ids_(std::move(ids)), common_(std::move(common)) {}

void DevicePool::require(std::size_t devicesPerReplica, std::size_t replicas) const {
  const std::size_t needed = devicesPerReplica * replicas;
  // Names with an index are used up by all replicas.
  static_cast<void>(list_.at((list_.isNumbered() ? needed : devicesPerReplica) - 1));
  if (!ids_.empty() && ids_.size() < needed) {
    raise<InvalidArgument>(
        "useDeviceIds names {} devices, the programs of the model need {}", ids_.size(), needed);
  }
}

std::unique_ptr<device::Device> DevicePool::make(std::size_t numberInReplica) {
  DeviceRequest request = common_;
  request.name = list_.at(list_.isNumbered() ? made_ : numberInReplica);
  if (!ids_.empty()) {
    request.number = ids_[made_];
  } else if (!request.name.index) {
    request.number = nextNumber(request.name.kind);
  }
  ++made_;
  return makeDevice(request);
}

/// Of the kind: the first number that no name of the list and no device has.
int DevicePool::nextNumber(const std::string& kind) {
  int& next = nextOfKind_[kind];
  const auto named = [&](const DeviceName& name) {
    return name.kind == kind && name.index == next;
  };
  while (std::ranges::any_of(list_.names, named)) {
    ++next;
  }
  return next++;
}

std::vector<const device::Device*> DevicePool::samples(const device::Device& known) {
  std::vector<const device::Device*> all;
  for (const DeviceName& name : list_.names) {
    if (name.kind == known.info().kind && name.target == list_.names[0].target) {
      all.push_back(&known);
      continue;
    }
    std::unique_ptr<device::Device>& sample = samples_[name.kind + "@" + name.target];
    if (sample == nullptr) {
      DeviceRequest request = common_;
      request.name = name;
      sample = makeDevice(request);
    }
    all.push_back(sample.get());
  }
  return all;
}

}  // namespace sluice::devices
