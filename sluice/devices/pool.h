// Makes the devices of a model one after the other, as its list of names says.
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
  /// `ids` are the numbers of the machine's devices in the order of use; empty: the names decide.
  /// `common` holds the settings that all devices share.
  DevicePool(DeviceList list, std::vector<std::int32_t> ids, DeviceRequest common);

  const DeviceList& list() const { return list_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  const DeviceRequest& common() const { return common_; }

  /// Throws InvalidArgument if the list or `ids` has too few devices for this many replicas.
  void require(std::size_t devicesPerReplica, std::size_t replicas) const;
  /// Makes the next device. Each name with an index is used once; names without an index are the
  /// same for every replica. Throws as makeDevice does.
  std::unique_ptr<device::Device> make(std::size_t numberInReplica);
  /// For each name in the list, a device of its kind that tells how to compile for it: `known`,
  /// which was made for the first name, or one made for this purpose. The pool owns the latter.
  std::vector<const device::Device*> samples(const device::Device& known);

 private:
  int nextNumber(const std::string& kind);

  DeviceList list_;
  std::vector<std::int32_t> ids_;
  DeviceRequest common_;
  std::size_t made_ = 0;
  std::map<std::string, int> nextOfKind_;
  std::map<std::string, std::unique_ptr<device::Device>> samples_;  // by kind and target
};

}  // namespace sluice::devices
