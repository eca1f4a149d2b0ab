// Makes the devices of a model, one after the other, as its list of names says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/devices/registry.h"

namespace sluice::devices {

class DevicePool {
 public:
  /// `ids` are numbers of the machine's devices in the order of use; empty: as the names say.
  /// `common` is what all devices have in common.
  DevicePool(DeviceList list, std::vector<std::int32_t> ids, DeviceRequest common);

  const DeviceList& list() const { return list_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  const DeviceRequest& common() const { return common_; }

  /// Throws InvalidArgument if fewer devices were named than so many replicas need.
  void require(std::size_t devicesPerReplica, std::size_t replicas) const;
  /// The next device. Names with an index are used up one by one; of others every replica has the
  /// same. Throws as makeDevice does.
  std::unique_ptr<device::Device> make(std::size_t numberInReplica);
  /// By name of the list a device of its kind, to ask what programs for it are like: `known`, or
  /// one that is made for this. They end with the pool.
  std::vector<const device::Device*> samples(const device::Device& known);

 private:
  int nextNumber(const std::string& kind);

  DeviceList list_;
  std::vector<std::int32_t> ids_;
  DeviceRequest common_;
  std::size_t made_ = 0;
  std::map<std::string, int> nextOfKind_;
  std::map<std::string, std::unique_ptr<device::Device>> samples_;  // by kind
};

}  // namespace sluice::devices
