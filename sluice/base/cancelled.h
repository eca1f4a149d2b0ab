// Cancelled: somebody asked for the end of a call (Model::cancel), or what the call was part of
// ended early.
#pragma once

#include <string>
#include <utility>

#include "sluice/base/error.h"

namespace sluice {

class Cancelled : public Error {
 public:
  explicit Cancelled(std::string message) : Error(std::move(message), "Cancelled") {}
};

}  // namespace sluice
