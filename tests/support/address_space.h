// Makes a process run out of memory, for tests of what happens then. The limit holds until the
// process ends, so it is set in a child process: EXPECT_EXIT.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

namespace sluice::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanLimitAddressSpace = false;  // the sanitizers' shadow memory would count
#else
inline constexpr bool kCanLimitAddressSpace = true;
#endif

/// Limits the address space of this process to its current size and `moreBytes`.
inline void limitAddressSpace(std::size_t moreBytes) {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  const rlim_t most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + moreBytes;
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  if (!file || ::setrlimit(RLIMIT_AS, &limit) != 0) {
    std::_Exit(77);
  }
}

/// Ends the process with 0 if `f` throws E, with 1 if it throws nothing, and with 2 otherwise.
template <class E, class F>
[[noreturn]] void exitByError(F f) {
  try {
    f();
  } catch (const E&) {
    std::_Exit(0);
  } catch (...) {
    std::_Exit(2);
  }
  std::_Exit(1);
}

}  // namespace sluice::testing
