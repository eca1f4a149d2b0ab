#include "sluice/base/prompt_thread.h"

#include <cstdint>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice {
namespace {

/// The system's own, of which the C library knows nothing.
struct SchedulingRequest {
  std::uint32_t size = sizeof(SchedulingRequest);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0x08;  // keep the policy
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t slice = 0;  // nanoseconds
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

}  // namespace

void becomePrompt() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // naps of 20 microseconds would else take 70
  // Since Linux 6.12 a thread with a short slice interrupts one with a longer slice when it is
  // woken. Otherwise it may wait until that one's slice of milliseconds is over.
  SchedulingRequest request;
  request.slice = 100'000;
  request.nice = getpriority(PRIO_PROCESS, 0);
  syscall(SYS_sched_setattr, 0, &request, 0U);
}

}  // namespace sluice
