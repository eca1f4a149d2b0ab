// Sets SLUICE_DEVICE for the duration of a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace sluice::testing {

/// Sets the variable while this object lives; null: unsets it.
class DeviceVariable {
 public:
  explicit DeviceVariable(const char* value) {
    if (const char* found = std::getenv("SLUICE_DEVICE")) {
      before_ = found;
    }
    set(value);
  }
  ~DeviceVariable() { set(before_ ? before_->c_str() : nullptr); }
  DeviceVariable(const DeviceVariable&) = delete;
  DeviceVariable& operator=(const DeviceVariable&) = delete;

 private:
  static void set(const char* value) {
    if (value == nullptr) {
      ::unsetenv("SLUICE_DEVICE");
    } else {
      ::setenv("SLUICE_DEVICE", value, 1);
    }
  }

  std::optional<std::string> before_;
};

}  // namespace sluice::testing
