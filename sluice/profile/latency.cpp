#include "sluice/profile/latency.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"

namespace sluice::profile {
namespace {

using program::Program;
using program::Task;
using program::TaskKind;
using program::Wait;
using runtime::TaskTime;

/// The times of one micro-batch, in nanoseconds.
struct Passage {
  std::int64_t asked = std::numeric_limits<std::int64_t>::max();  // first feed begins
  std::int64_t fed = std::numeric_limits<std::int64_t>::min();    // last feed ends
  std::int64_t firstReady = std::numeric_limits<std::int64_t>::max();
  std::int64_t lastReady = std::numeric_limits<std::int64_t>::min();
  std::int64_t fetched = std::numeric_limits<std::int64_t>::min();
  bool hasInput = false;
  bool hasOutput = false;
};

class Spread {
 public:
  void add(std::int64_t nanoseconds) {
    min_ = std::min(min_, nanoseconds);
    max_ = std::max(max_, nanoseconds);
    sum_ += nanoseconds;
    ++count_;
  }
  Latency result() const {
    if (count_ == 0) {
      return {};
    }
    return {static_cast<double>(min_) * 1e-9,
            static_cast<double>(max_) * 1e-9,
            static_cast<double>(sum_) * 1e-9 / static_cast<double>(count_)};
  }

 private:
  std::int64_t min_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t count_ = 0;
};

/// The end of a task of one replica, by lane, task and round.
class Ends {
 public:
  explicit Ends(const Program& program) {
    for (const program::Lane& lane : program.lanes) {
      perRound_.push_back(lane.tasks.size());
    }
    ends_.resize(perRound_.size());
  }

  void add(const TaskTime& time) {
    auto& lane = ends_[static_cast<std::size_t>(time.lane)];
    const std::size_t at = position(time.lane, time.task, time.round);
    lane.resize(std::max(lane.size(), at + 1));
    lane[at] = time.end;
  }

  std::optional<std::int64_t> of(std::int32_t lane, std::int32_t task, std::int32_t round) const {
    const auto& ends = ends_[static_cast<std::size_t>(lane)];
    const std::size_t at = position(lane, task, round);
    return at < ends.size() ? std::optional(ends[at]) : std::nullopt;
  }

 private:
  std::size_t position(std::int32_t lane, std::int32_t task, std::int32_t round) const {
    return static_cast<std::size_t>(round) * perRound_[static_cast<std::size_t>(lane)] +
           static_cast<std::size_t>(task);
  }

  std::vector<std::size_t> perRound_;
  std::vector<std::vector<std::int64_t>> ends_;
};

/// When what a drain fetches was made: the end of the kernels it waits for in its own round.
std::int64_t readyTime(const Program& program,
                       const Task& drain,
                       const TaskTime& time,
                       const Ends& ends) {
  std::optional<std::int64_t> ready;
  for (const Wait& wait : program.waitsOf(drain)) {
    const auto end = wait.roundsBack == 0 ? ends.of(wait.lane, wait.task, time.round)
                                          : std::optional<std::int64_t>();
    if (end && (!ready || *end > *ready)) {
      ready = end;
    }
  }
  return ready.value_or(time.start);
}

}  // namespace

std::int64_t cyclesOf(std::span<const TaskTime> times) {
  if (times.empty()) {
    return 0;
  }
  return std::ranges::max(times, {}, &TaskTime::end).end -
         std::ranges::min(times, {}, &TaskTime::start).start;
}

Latencies measureLatencies(const Program& program, std::span<const TaskTime> times) {
  std::int32_t rounds = 0;
  std::size_t replicas = 0;
  for (const TaskTime& time : times) {
    rounds = std::max(rounds, time.round + 1);
    replicas = std::max(replicas, static_cast<std::size_t>(time.replica) + 1);
  }
  const std::int64_t microBatches = std::int64_t{rounds} * program.microBatchesPerRound;
  std::vector<Ends> ends(replicas, Ends(program));
  for (const TaskTime& time : times) {
    ends[static_cast<std::size_t>(time.replica)].add(time);
  }
  std::vector<Passage> passages(static_cast<std::size_t>(microBatches) * replicas);
  for (const TaskTime& time : times) {
    const Task& task = program.lanes[static_cast<std::size_t>(time.lane)]
                           .tasks[static_cast<std::size_t>(time.task)];
    const std::int64_t index =
        std::int64_t{time.round} * program.microBatchesPerRound + task.microBatch;
    const auto replica = static_cast<std::size_t>(time.replica);
    Passage& passage = passages[static_cast<std::size_t>(index) * replicas + replica];
    if (task.kind == TaskKind::Feed) {
      passage.hasInput = true;
      passage.asked = std::min(passage.asked, time.start);
      passage.fed = std::max(passage.fed, time.end);
    } else if (task.kind == TaskKind::Drain &&
               program.drains[static_cast<std::size_t>(task.subject)].rule.applies(index,
                                                                                   microBatches)) {
      const std::int64_t ready = readyTime(program, task, time, ends[replica]);
      passage.hasOutput = true;
      passage.firstReady = std::min(passage.firstReady, ready);
      passage.lastReady = std::max(passage.lastReady, ready);
      passage.fetched = std::max(passage.fetched, time.end);
    }
  }
  Spread hostDevice;
  Spread compute;
  Spread deviceHost;
  Spread roundTrip;
  for (const Passage& passage : passages) {
    if (passage.hasInput && passage.hasOutput) {
      hostDevice.add(passage.fed - passage.asked);
      compute.add(std::max<std::int64_t>(passage.lastReady - passage.fed, 0));
      deviceHost.add(passage.fetched - passage.firstReady);
      roundTrip.add(passage.fetched - passage.asked);
    }
  }
  return {hostDevice.result(), compute.result(), deviceHost.result(), roundTrip.result()};
}

}  // namespace sluice::profile
