// Libraries of the CUDA toolkit, opened when they are first needed: programs that use no GPU
// neither load nor need them. Private to the device.
#pragma once

#include <string>
#include <string_view>

namespace sluice::devices::cuda {

class Library {
 public:
  /// `name` without folder, as in libnvrtc.so.13; it is looked for in `folder` first, if one is
  /// given. Throws DeviceError that says where it was looked for.
  explicit Library(std::string name, const std::string& folder = "");
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() = default;  // stays open: its threads and caches outlive every user

  /// Throws DeviceError if the library has no such function.
  template <class F>
  void find(std::string_view function, F*& to) const {
    to = reinterpret_cast<F*>(symbol(std::string(function)));
  }

 private:
  void* symbol(const std::string& function) const;

  std::string name_;
  void* handle_ = nullptr;
};

/// libcublasLt.so.13 for "cublasLt": the library that belongs to the toolkit of this build.
std::string toolkitLibrary(std::string_view name);

}  // namespace sluice::devices::cuda
