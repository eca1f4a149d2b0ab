#include "sluice/base/spin.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

namespace sluice {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): of the whole process
std::atomic<int> running{0};

int coresOfControlGroup() {
  std::string text;
  std::getline(std::ifstream("/sys/fs/cgroup/cpu.max"), text);
  return coresOfQuota(text.c_str());
}

}  // namespace

int coresOfQuota(const char* text) {
  long long quota = 0;
  long long period = 0;
  // NOLINTNEXTLINE(cert-err34-c): text that is no two numbers means no limit
  if (std::sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) {
    return 0;
  }
  return static_cast<int>(std::clamp<long long>((quota + period - 1) / period, 1, INT16_MAX));
}

int availableCores() {
  static const int cores = [] {
    const int own = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const int limit = coresOfControlGroup();
    return limit == 0 ? own : std::min(own, limit);
  }();
  return cores;
}

bool maySpin() {
  return running.load(std::memory_order_relaxed) <= availableCores();
}

namespace detail {

void changeRunning(int by) {
  running.fetch_add(by, std::memory_order_relaxed);
}

void pauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace detail
}  // namespace sluice
