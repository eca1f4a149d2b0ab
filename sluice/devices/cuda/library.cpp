#include "sluice/devices/cuda/library.h"

#include <array>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::devices::cuda {
namespace {

/// "" is wherever the system looks: LD_LIBRARY_PATH, the cache of the loader.
constexpr std::array<std::string_view, 2> kFolders = {"", "/usr/local/cuda/lib64/"};

}  // namespace

Library::Library(std::string name, const std::string& folder) : name_(std::move(name)) {
  std::string reasons;
  std::vector<std::string> folders(kFolders.begin(), kFolders.end());
  if (!folder.empty()) {
    folders.insert(folders.begin(), folder + "/");
  }
  for (const std::string& each : folders) {
    const std::string path = each + name_;
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      return;
    }
    const char* reason = ::dlerror();
    reasons += fmt::format("; {}", reason == nullptr ? "unknown reason" : reason);
  }
  raise<DeviceError>(
      "the CUDA device needs {}, which cannot be opened: install the CUDA toolkit of that version, "
      "or name its folder in LD_LIBRARY_PATH{}",
      name_,
      reasons);
}

void* Library::symbol(const std::string& function) const {
  void* found = ::dlsym(handle_, function.c_str());
  if (found == nullptr) {
    raise<DeviceError>(
        "{} has no function {}: it is not the version that this build needs", name_, function);
  }
  return found;
}

std::string toolkitLibrary(std::string_view name) {
  return fmt::format("lib{}.so.{}", name, CUDART_VERSION / 1000);
}

}  // namespace sluice::devices::cuda
