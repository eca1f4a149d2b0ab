// DeviceClaim: a device of the machine that one model has for itself, also against other processes.
// Claims are locks on files, which end with the process. Only kinds with a stated number of
// exclusive devices use them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace sluice::devices {

/// Free again when it is destroyed.
class DeviceClaim {
 public:
  DeviceClaim(int descriptor, int number) : descriptor_(descriptor), number_(number) {}
  ~DeviceClaim();
  DeviceClaim(const DeviceClaim&) = delete;
  DeviceClaim& operator=(const DeviceClaim&) = delete;

  int number() const { return number_; }

 private:
  int descriptor_;
  int number_;
};

struct ClaimRequest {
  std::string kind;
  int count = 1;             ///< devices of the kind
  std::optional<int> index;  ///< this one; none: any
  bool waits = false;        ///< until one is free
};

/// Throws DeviceError if none is free and the request does not wait, or if the folder of the locks
/// cannot be used. While it waits, the thread's WaitWatch looks around.
std::shared_ptr<DeviceClaim> claimDevice(const ClaimRequest& request);

/// Where the locks of the user are.
std::filesystem::path claimFolder();

/// Whether SLUICE_WAIT_FOR_DEVICE (or POPTORCH_WAIT_FOR_IPU) is on.
bool waitsForDevices();

}  // namespace sluice::devices
