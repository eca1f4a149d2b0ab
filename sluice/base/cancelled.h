// Cancelled: thrown when a call is cancelled (Model::cancel) or when the work that it is part of
// ends early.
#pragma once

#include <string>
#include <utility>

#include "sluice/base/error.h"

#pragma GCC visibility push(default)

namespace sluice {

class Cancelled : public Error {
 public:
  explicit Cancelled(std::string message) : Error(std::move(message), "Cancelled") {}
};

}  // namespace sluice

#pragma GCC visibility pop
