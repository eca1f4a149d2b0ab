#include "sluice/base/spin.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <sched.h>

namespace sluice {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): of the whole process
std::atomic<int> running{0};

int coresOfControlGroup() {
  std::string text;
  std::getline(std::ifstream("/sys/fs/cgroup/cpu.max"), text);
  return coresOfQuota(text.c_str());
}

/// Cores that the system lets this process run on.
int coresOfAffinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

int coresPerProcess(int allowed, int machine, const char* neighbours) {
  const int processes = neighbours != nullptr ? std::atoi(neighbours) : 1;
  const bool bound = allowed > 0 && allowed < machine;  // by the launcher, or by somebody else
  const int own = allowed > 0 ? allowed : machine;
  return std::max(1, bound || processes < 1 ? own : own / processes);
}

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
    const int own = coresPerProcess(coresOfAffinity(),
                                    static_cast<int>(std::thread::hardware_concurrency()),
                                    std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE"));
    const int limit = coresOfControlGroup();
    return limit == 0 ? own : std::min(own, limit);
  }();
  return cores;
}

bool maySpin(int spare) {
  return running.load(std::memory_order_relaxed) + spare <= availableCores();
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
