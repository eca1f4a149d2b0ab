// Turns refusals of the host into errors of Sluice: threads that cannot be started, and memory that
// is not available. Code that starts a thread, or that allocates a size given by a user or a file,
// does it with these functions.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "sluice/base/error.h"

namespace sluice {

/// Starts a thread that runs `body`; throws DeviceError naming `what` if the system refuses.
template <class F>
std::thread startThread(std::string_view what, F&& body) {
  try {
    return std::thread(std::forward<F>(body));
  } catch (const std::system_error& error) {
    raise<DeviceError>("cannot start {}: {}; use fewer threads, or raise the limits of the process",
                       what,
                       error.code().message());
  }
}

/// Calls `f`, and turns a failed allocation in it into OutOfMemory naming `what`.
template <class F>
auto orOutOfMemory(std::string_view what, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc&) {
    raise<OutOfMemory>("the host has no memory for {}", what);
  } catch (const std::length_error&) {
    raise<OutOfMemory>("no memory is large enough for {}", what);
  }
}

}  // namespace sluice
