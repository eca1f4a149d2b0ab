#include "sluice/devices/claim.h"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/wait_watch.h"

namespace sluice::devices {
namespace {

/// Null if another one has it.
std::shared_ptr<DeviceClaim> tryClaim(const std::filesystem::path& folder,
                                      const std::string& kind,
                                      int number) {
  const std::filesystem::path path = folder / fmt::format("{}-{}.lock", kind, number);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    raise<DeviceError>(
        "cannot claim a device with the lock '{}': {}", path.string(), std::strerror(errno));
  }
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    return std::make_shared<DeviceClaim>(descriptor, number);
  }
  ::close(descriptor);
  return nullptr;
}

}  // namespace

DeviceClaim::~DeviceClaim() {
  ::close(descriptor_);
}

std::filesystem::path claimFolder() {
  return std::filesystem::temp_directory_path() / fmt::format("sluice-devices-{}", ::getuid());
}

bool waitsForDevices() {
  return isSwitchedOn("SLUICE_WAIT_FOR_DEVICE", "POPTORCH_WAIT_FOR_IPU");
}

std::shared_ptr<DeviceClaim> claimDevice(const ClaimRequest& request) {
  const std::filesystem::path folder = claimFolder();
  std::error_code code;
  std::filesystem::create_directory(folder, code);
  if (code) {
    raise<DeviceError>(
        "cannot make the folder of device locks '{}': {}", folder.string(), code.message());
  }
  for (bool first = true;; first = false) {
    for (int number = 0; number < request.count; ++number) {
      if (request.index.value_or(number) == number) {
        if (auto claim = tryClaim(folder, request.kind, number)) {
          return claim;
        }
      }
    }
    if (!request.waits) {
      raise<DeviceError>(
          "{}; SLUICE_WAIT_FOR_DEVICE=1 waits for one",
          request.index
              ? fmt::format("device {}:{} is in use", request.kind, *request.index)
              : fmt::format(
                    "none of the {} devices of kind '{}' is free", request.count, request.kind));
    }
    if (first) {
      log::info("devices", "waiting for a free device of kind '{}'", request.kind);
    }
    WaitWatch::look();
    std::this_thread::sleep_for(WaitWatch::kPeriod);
  }
}

}  // namespace sluice::devices
