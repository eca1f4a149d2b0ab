// The copy of the state, and the calls since.
#include "sluice/api/step_recovery.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include <fmt/format.h>

#include "sluice/base/wait_watch.h"

namespace sluice {

void StepRecovery::take(Snapshot snapshot) {
  snapshot_ = std::move(snapshot);
  since_ = 0;
  behind_ = false;
  calls_.clear();
}

void StepRecovery::note(std::function<void()> repeat, std::uint64_t changes) {
  ++since_;
  changes_ = changes;
  behind_ = false;
  if (repeat) {
    calls_.push_back(std::move(repeat));
  }
}

void StepRecovery::repeat() const {
  for (const std::function<void()>& call : calls_) {
    call();
  }
}

std::string whereToLook(const std::filesystem::path& bundle) {
  return bundle.empty() ? "no diagnostics could be written below logDir, see the log"
                        : fmt::format("see '{}'", bundle.string());
}

void waitForRetry(const RecoveryOptions& options,
                  std::int32_t attempt,
                  const std::function<void()>& look) {
  constexpr double kLook = 0.05;
  constexpr double kLongest = 3600;
  double left = std::min(std::ldexp(options.backoff, attempt), kLongest);
  while (left > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kLook)));
    left -= kLook;
    WaitWatch::look();
    look();
  }
}

}  // namespace sluice
