// RecoverableError: something outside of the model failed (a disk, a link), and the run can
// continue once it is repaired.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sluice/base/error.h"

#pragma GCC visibility push(default)

namespace sluice {

/// What has to be set up again before a run can continue.
enum class RecoveryAction : std::uint8_t { DeviceReset, PartitionReset, FullReset };

class RecoverableError : public DeviceError {
 public:
  RecoverableError(RecoveryAction action, std::string message)
      : DeviceError(std::move(message), "RecoverableError"), action_(action) {}

  RecoveryAction recoveryAction() const { return action_; }

 private:
  RecoveryAction action_;
};

}  // namespace sluice

#pragma GCC visibility pop
