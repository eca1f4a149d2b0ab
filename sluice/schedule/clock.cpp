// For Interleaved, this file searches for rotations of the list of devices that never meet. Let
// d[t] be the device of step t. Two micro-batches that start `lag` steps apart meet if d[t] = d[t +
// lag] for some t. Whether two rotations meet depends only on their lag, so a set of rotations that
// never meet is a clique of a circulant graph, and the lexicographically first of the largest sets
// contains 0.
//
//   d = 0 1 1 0, lag 2:   0 1 1 0 0 1 1 0
//                             0 1 1 0 0 1    never the same device: overlap 2, starts 0 2 4 6
#include "sluice/schedule/clock.h"

#include <algorithm>
#include <numeric>

#include "sluice/base/error.h"
#include "sluice/schedule/lock_step.h"

namespace sluice::schedule {
namespace {

/// Nodes of the search after which the best set so far is taken; never reached by a stack.
constexpr std::int64_t kSearchLimit = 200'000;

std::vector<bool> freeLags(const std::vector<std::vector<std::int32_t>>& devices) {
  const std::size_t n = devices.size();
  std::vector<bool> free(n, true);
  for (std::size_t lag = 1; lag < n; ++lag) {
    for (std::size_t t = 0; t < n && free[lag]; ++t) {
      const auto& other = devices[(t + lag) % n];
      free[lag] = std::ranges::none_of(
          devices[t], [&](std::int32_t d) { return std::ranges::count(other, d) != 0; });
    }
  }
  return free;
}

/// No set is larger: a device that has c steps is busy for c cycles of every micro-batch.
std::size_t mostRotations(const std::vector<std::vector<std::int32_t>>& devices) {
  std::vector<std::int32_t> all;
  for (const auto& step : devices) {
    all.insert(all.end(), step.begin(), step.end());
  }
  std::ranges::sort(all);
  std::size_t longest = 1;
  std::size_t run = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    run = i > 0 && all[i] == all[i - 1] ? run + 1 : 1;
    longest = std::max(longest, run);
  }
  return devices.size() / longest;
}

class RotationSearch {
 public:
  RotationSearch(std::vector<bool> free, std::size_t most) : free_(std::move(free)), most_(most) {}

  std::vector<std::int32_t> run() {
    chosen_ = {0};
    extend();
    return best_;
  }

 private:
  void extend() {
    if (chosen_.size() > best_.size()) {
      best_ = chosen_;
    }
    const auto n = static_cast<std::int32_t>(free_.size());
    for (std::int32_t next = chosen_.back() + 1; next < n; ++next) {
      const bool done = best_.size() >= most_ || ++nodes_ > kSearchLimit;
      if (done || chosen_.size() + static_cast<std::size_t>(n - next) <= best_.size()) {
        return;
      }
      if (std::ranges::all_of(
              chosen_, [&](std::int32_t c) { return free_[static_cast<std::size_t>(next - c)]; })) {
        chosen_.push_back(next);
        extend();
        chosen_.pop_back();
      }
    }
  }

  std::vector<bool> free_;
  std::size_t most_;
  std::vector<std::int32_t> chosen_;
  std::vector<std::int32_t> best_;
  std::int64_t nodes_ = 0;
};

std::vector<std::vector<std::int32_t>> devicesOfSteps(const CheckedProblem& checked) {
  std::vector<std::vector<std::int32_t>> devices(static_cast<std::size_t>(checked.numSteps()));
  for (std::int32_t stage = 0; stage < checked.numStages(); ++stage) {
    for (const WorkKind kind : checked.kinds()) {
      if (kind != WorkKind::BackwardWeight) {
        devices[static_cast<std::size_t>(checked.stepOf(kind, stage))].push_back(
            checked.device(stage));
      }
    }
  }
  return devices;
}

}  // namespace

std::vector<std::int32_t> overlapRotations(
    const std::vector<std::vector<std::int32_t>>& devicesOfStep) {
  if (devicesOfStep.empty()) {
    raise<InvalidArgument>("schedule: expected at least one step, got none");
  }
  return RotationSearch(freeLags(devicesOfStep), mostRotations(devicesOfStep)).run();
}

Clock clockOf(PipelineKind kind, const CheckedProblem& checked) {
  Clock clock;
  clock.steps = checked.numSteps();
  switch (kind) {
    case PipelineKind::Sequential:
      clock.offsets = {0};
      return clock;
    case PipelineKind::Interleaved:
      clock.offsets = overlapRotations(devicesOfSteps(checked));
      return clock;
    case PipelineKind::Popart:
      clock.merged = checked.training();
      clock.steps -= clock.merged ? 1 : 0;
      [[fallthrough]];
    case PipelineKind::Grouped:
      clock.offsets.resize(static_cast<std::size_t>(clock.steps));
      std::iota(clock.offsets.begin(), clock.offsets.end(), 0);
      return clock;
    default:
      raise<InvalidArgument>(
          "schedule: {} has no cycles; sequential, grouped, interleaved and popart have",
          name(kind));
  }
}

}  // namespace sluice::schedule
