// WaitWatch: lets a thread look around while it waits inside the library. A caller that must do
// something now and then, such as handling signals, sets one; waits for a step, for a model's turn
// and for data then call it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace sluice {

/// While it lives, long waits of the thread that made it call `look`, which may not throw. The
/// newest one counts.
class WaitWatch {
 public:
  static constexpr std::chrono::milliseconds kPeriod{50};  ///< between two looks

  explicit WaitWatch(std::function<void()> look);
  ~WaitWatch();
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  /// Whether the calling thread has one.
  static bool isSet();
  /// Calls the calling thread's, if it has one. Hold no lock meanwhile: it may call anything.
  static void look() noexcept;

 private:
  std::function<void()> look_;
  const WaitWatch* before_;
};

/// Waits as std::condition_variable::wait does; gives up the lock and calls `look` now and then if
/// the thread has a watch.
template <class Over, class Look>
void waitWatched(std::condition_variable& changed,
                 std::unique_lock<std::mutex>& lock,
                 const Over& over,
                 const Look& look) {
  if (!WaitWatch::isSet()) {
    changed.wait(lock, over);
    return;
  }
  while (!changed.wait_for(lock, WaitWatch::kPeriod, over)) {
    lock.unlock();
    look();
    lock.lock();
  }
}

template <class Over>
void waitWatched(std::condition_variable& changed,
                 std::unique_lock<std::mutex>& lock,
                 const Over& over) {
  waitWatched(changed, lock, over, WaitWatch::look);
}

}  // namespace sluice
