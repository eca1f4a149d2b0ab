// The kinds of devices in this build, and the names of devices:
//
//   cpu            as many devices of the kind as a model needs
//   far*3          three devices of the kind
//   cuda:1         the device with that number
//   cuda:0*4       four devices that share it, each with all threads and the whole budget
//   sim@ipu1       a simulated device of that target, or of a JSON file that describes one
//   cpu,far*2      several: one device of the model for each; the last kind repeats for the rest
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

namespace sluice {
class FileCache;
}

namespace sluice::devices {

/// The name of a device.
struct DeviceName {
  std::string kind = "cpu";
  std::optional<int> index;  ///< none: the next of its kind
  int shares = 1;            ///< number of devices of the model that share it
  std::string target = {};   ///< what a simulated device stands for; empty: the kind's own

  bool operator==(const DeviceName&) const = default;
  std::string str() const;
};

/// The devices of a model, in order.
struct DeviceList {
  std::vector<DeviceName> names;
  bool endless = true;  ///< the last name applies to all further devices
  std::string source;   ///< origin of the text, for errors; empty: the caller knows it

  /// Ignores the source.
  bool operator==(const DeviceList& other) const {
    return names == other.names && endless == other.endless;
  }
  /// The name of device i. Throws InvalidArgument if the list is too short.
  const DeviceName& at(std::size_t i) const;
  /// Whether any name has an index.
  bool isNumbered() const;
  /// The form that parseDevices reads.
  std::string str() const;
};

/// Throws InvalidArgument, which shows the form and the kinds, if the text has another form or if a
/// kind, index or number of shares does not exist. Throws DeviceError, which says why, if a kind
/// cannot be used here.
DeviceList parseDevices(std::string_view text);

/// The user's choice: the text, else SLUICE_DEVICE, else "cpu". Errors say if the variable gave it.
DeviceList chosenDevices(std::string_view text);

struct KindInfo {
  std::string_view name;
  std::string_view summary;  ///< one sentence for people
  std::string unusable;      ///< why it cannot be used here; empty: it can
  std::optional<int> count;  ///< devices of the machine; none: made on demand, without limit
  device::DeviceInfo info;   ///< of a device of the kind, if it can be used
};
/// All kinds in this build, in the order of registry.cpp.
std::vector<KindInfo> deviceKinds();

struct DeviceRequest {
  DeviceName name;
  int number = 0;  ///< the index, if the name has none
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< 0: not limited
  device::Tuning tuning = {};
  /// Where devices that compile kernels look for their code first; null: nowhere.
  std::shared_ptr<const FileCache> codeCache = nullptr;
};

/// Throws as parseDevices does.
std::unique_ptr<device::Device> makeDevice(const DeviceRequest& request);

/// Memory of a device that another library of the process owns, for copies from and to it; the
/// caller keeps it. Throws Unsupported for kinds that share no memory with other libraries, and
/// InvalidArgument if it is not memory of that device.
struct ForeignBytes {
  void* pointer = nullptr;
  std::size_t bytes = 0;
};
std::unique_ptr<device::Memory> wrapMemory(std::string_view kind, int index, ForeignBytes given);

}  // namespace sluice::devices
