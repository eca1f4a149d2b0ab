#include "sluice/api/agreement.h"

#include <algorithm>

namespace sluice {
namespace {

/// How long the steps between two exchanges should take: people do not notice it, and a message of
/// every process costs little in comparison.
constexpr std::chrono::milliseconds kBetween{50};
constexpr std::int64_t kLongest = 1024;  // steps
constexpr int kBits = 11;                // of the interval in a message

}  // namespace

Agreement::Agreement(const Model& model, std::string what)
    : model_(model),
      what_(std::move(what)),
      alone_(model.options().distributed.numProcesses() == 1) {}

std::int64_t Agreement::largest(std::int64_t own) {
  return alone_ || --left_ <= 0 ? largestNow(own) : 0;
}

std::int64_t Agreement::largestNow(std::int64_t own) {
  if (alone_) {
    return own;
  }
  const Clock::time_point now = Clock::now();
  const std::int64_t proposed = now - std::exchange(last_, now) < kBetween
                                    ? std::min(interval_ * 2, kLongest)
                                    : std::max<std::int64_t>(interval_ / 2, 1);
  // Every process has times of its own. The largest proposal is the next interval of all.
  const std::int64_t found = model_.largestInAllProcesses(what_, own << kBits | proposed);
  interval_ = left_ = found & ((1 << kBits) - 1);
  return found >> kBits;
}

}  // namespace sluice
