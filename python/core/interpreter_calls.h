// What threads do that need the interpreter's lock: calls of Python functions, and returns from
// C++. A thread that asks for the lock once the interpreter ends is killed, in the middle of C++
// code, so none may begin then, but in the thread that ends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace sluice::python {

class InterpreterCalls {
 public:
  /// Whether a call may begin. No lock: a forked process may begin with it taken.
  bool begin();
  void end() { state_.fetch_sub(1); }
  /// From now on none begins. Waits a while for those that are under way.
  void endAll();
  bool ended() const { return (state_.load() & kEnded) != 0; }

 private:
  static constexpr std::uint32_t kEnded = 1U << 31U;
  std::atomic<std::uint32_t> state_{0};  // calls that are under way, and whether all must end
  std::atomic<std::thread::id> ending_{};
};

/// Those of this process; never destroyed, because threads may outlive the end of main.
InterpreterCalls& interpreterCalls();

}  // namespace sluice::python
