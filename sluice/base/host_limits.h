// What the host refuses, as errors of ours: threads that cannot be started, memory that is not
// there. Whoever starts a thread, or takes memory by a size that a user or a file gives, does it
// here.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "sluice/base/error.h"

namespace sluice {

/// A thread that runs `body`; throws DeviceError naming `what` if the system gives none.
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
