// The kinds of devices that this build has, and how a device is named:
//
//   cpu            as many devices of the kind as a model needs
//   far*3          three devices of the kind
//   cuda:1         the device of that number
//   cuda:0*4       four devices that share it, each with all threads and the whole budget
//   cpu,far*2      several: a device of the model for each, the last kind for all that follow
//
// A kind is one line in registry.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/device/device.h"

namespace sluice::devices {

/// A device by its name.
struct DeviceName {
  std::string kind = "cpu";
  std::optional<int> index;  ///< none: the next of its kind
  int shares = 1;            ///< among so many devices of the name it is shared

  bool operator==(const DeviceName&) const = default;
  std::string str() const;
};

/// The devices of a model, in order.
struct DeviceList {
  std::vector<DeviceName> names;
  bool endless = true;  ///< the last name holds for all devices that follow
  std::string source;   ///< where its text is from, for errors; empty: whoever parsed it knows

  /// Whatever the source.
  bool operator==(const DeviceList& other) const {
    return names == other.names && endless == other.endless;
  }
  /// Of device i. Throws InvalidArgument if the list ends before.
  const DeviceName& at(std::size_t i) const;
  /// Whether any name has an index.
  bool isNumbered() const;
  /// In the form that parseDevices reads.
  std::string str() const;
};

/// Throws InvalidArgument that shows the form and names the kinds for text of another form, and for
/// a kind, index or number of shares that is not there; DeviceError that says why for a kind that
/// cannot be used here.
DeviceList parseDevices(std::string_view text);

/// What a user chose: the text, else SLUICE_DEVICE, else "cpu". Errors say if it is the variable's
/// text.
DeviceList chosenDevices(std::string_view text);

struct KindInfo {
  std::string_view name;
  std::string_view summary;  ///< a sentence for people
  std::string unusable;      ///< why it cannot be used here; empty: it can
  std::optional<int> count;  ///< devices of the machine; none: any number, made on demand
  device::DeviceInfo info;   ///< of a device of the kind, if it can be used
};
/// All kinds that were built, in the order of registry.cpp.
std::vector<KindInfo> deviceKinds();

struct DeviceRequest {
  DeviceName name;
  int number = 0;  ///< its index if the name has none
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: not limited
  device::Tuning tuning = {};
};

/// Throws as parseDevices does.
std::unique_ptr<device::Device> makeDevice(const DeviceRequest& request);

}  // namespace sluice::devices
