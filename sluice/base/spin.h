// Short waits without sleep. Waking a thread that sleeps takes longer than many kernels run, so a
// thread that will soon be needed again first looks for its next work for a moment, as long as the
// threads of the library that run or look are no more than the cores: otherwise it would keep
// another one from running.
#pragma once

#include <chrono>

namespace sluice {

/// Cores that this process may use, by affinity and by the limits of its control group; its share
/// of the machine's if mpirun has started several processes there without binding them.
int availableCores();

/// The share of a process that is allowed to run on some cores of a machine (0: not known);
/// `neighbours` is the text of the number of processes that a launcher has started there, or null.
int coresPerProcess(int allowed, int machine, const char* neighbours);

/// The text of a control group's `cpu.max`, "<quota> <period>", as a number of cores; 0: no limit.
int coresOfQuota(const char* text);

namespace detail {
void changeRunning(int by);
void pauseCore();
}  // namespace detail

/// Whether the threads that run or look around leave so many cores to others.
bool maySpin(int spare = 0);

/// Counts a thread as one that runs, as long as it lives.
class Running {
 public:
  Running() { detail::changeRunning(1); }
  ~Running() { detail::changeRunning(-1); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

/// Takes the calling thread, which is counted, out of the count while it sleeps.
class Sleeping {
 public:
  Sleeping() { detail::changeRunning(-1); }
  ~Sleeping() { detail::changeRunning(1); }
  Sleeping(const Sleeping&) = delete;
  Sleeping& operator=(const Sleeping&) = delete;
};

/// Asks `over`, without locks, until it says yes; false if it did not for a while, or if fewer than
/// `spare` cores would be left.
template <class Over>
bool spinUntil(const Over& over, int spare = 0) {
  constexpr std::chrono::microseconds kLongest{100};
  constexpr int kAsks = 32;  // before looking at the clock
  if (over()) {
    return true;
  }
  if (!maySpin(spare)) {
    return false;
  }
  const auto end = std::chrono::steady_clock::now() + kLongest;
  do {
    for (int i = 0; i < kAsks; ++i) {
      detail::pauseCore();
      if (over()) {
        return true;
      }
    }
  } while (maySpin(spare) && std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace sluice
