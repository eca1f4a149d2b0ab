// RecoverableError: something outside of the model failed (a disk, a link), and the run can
// continue once it is repaired. UnrecoverableError: it cannot.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sluice/base/error.h"

#pragma GCC visibility push(default)

namespace sluice {

/// What has to be set up again before a run can continue.
enum class RecoveryAction : std::uint8_t {
  DeviceReset,     ///< the device, whose memory is then loaded again
  PartitionReset,  ///< all devices of the model and the links between them
  FullReset        ///< the machine: no process can do that for itself
};

class RecoverableError : public DeviceError {
 public:
  RecoverableError(RecoveryAction action, std::string message)
      : DeviceError(std::move(message), "RecoverableError"), action_(action) {}

  RecoveryAction recoveryAction() const { return action_; }

 private:
  RecoveryAction action_;
};

/// Take the system out of service; a model whose options ask for recovery says where it has written
/// what is known about the failure.
class UnrecoverableError : public DeviceError {
 public:
  explicit UnrecoverableError(std::string message)
      : DeviceError(std::move(message), "UnrecoverableError") {}
};

}  // namespace sluice

#pragma GCC visibility pop
