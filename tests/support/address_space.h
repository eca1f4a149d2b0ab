// A process that gets no more memory, for tests of what happens then. The limit holds until the end
// of the process, so it is set in a child: EXPECT_EXIT.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

namespace sluice::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanLimitAddressSpace = false;  // their shadow memory is part of it
#else
inline constexpr bool kCanLimitAddressSpace = true;
#endif

/// What this process may map from now on besides what it has.
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

/// Ends the process with 0 if `f` throws E, with 1 otherwise.
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
