// The message of a refused call, for tests of messages.
#pragma once

#include <string>

#include "sluice/base/error.h"

namespace sluice::testing {

/// Returns the message of the error of type E that `f` throws; other errors pass through.
template <class E = InvalidArgument, class F>
std::string messageOf(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace sluice::testing
