// RecoverableError: something outside of the model failed (a disk, a link), and the run can go on
// once it is mended.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/base/error.h"

namespace sluice {

/// What has to be set up anew before a run can go on.
enum class RecoveryAction : std::uint8_t { DeviceReset, PartitionReset, FullReset };

constexpr std::string_view name(RecoveryAction action) {
  constexpr std::array<std::string_view, 3> kNames = {"DeviceReset", "PartitionReset", "FullReset"};
  return kNames[static_cast<std::size_t>(action)];
}

class RecoverableError : public DeviceError {
 public:
  RecoverableError(RecoveryAction action, std::string message)
      : DeviceError(std::move(message), "RecoverableError"), action_(action) {}

  RecoveryAction recoveryAction() const { return action_; }

 private:
  RecoveryAction action_;
};

}  // namespace sluice
