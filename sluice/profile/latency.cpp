#include "sluice/profile/latency.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sluice/profile/trace.h"

namespace sluice::profile {
namespace {

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

/// When the tasks of one replica ended.
class Ends {
 public:
  void add(const TaskTime& time) { ends_[{time.lane, time.task, time.round}] = time.end; }
  std::optional<std::int64_t> of(std::int32_t lane, std::int32_t task, std::int32_t round) const {
    const auto found = ends_.find({lane, task, round});
    return found != ends_.end() ? std::optional(found->second) : std::nullopt;
  }

 private:
  // Not by place: the times of a trace file may have any round.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int64_t> ends_;
};

/// When what a drain fetches was made: the end of the kernels it waits for in its own round.
std::int64_t readyTime(const TracedTask& drain, const TaskTime& time, const Ends& ends) {
  std::optional<std::int64_t> ready;
  for (const Wait& wait : drain.waits) {
    const auto end = wait.roundsBack == 0 ? ends.of(wait.lane, wait.task, time.round)
                                          : std::optional<std::int64_t>();
    if (end && (!ready || *end > *ready)) {
      ready = end;
    }
  }
  return ready.value_or(time.start);
}

/// By micro-batch and replica.
using Passages = std::map<std::pair<std::int64_t, std::int32_t>, Passage>;

Latencies latenciesOf(const Passages& passages) {
  Spread hostDevice;
  Spread compute;
  Spread deviceHost;
  Spread roundTrip;
  for (const auto& [key, passage] : passages) {
    if (passage.hasInput && passage.hasOutput) {
      hostDevice.add(passage.fed - passage.asked);
      compute.add(std::max<std::int64_t>(passage.lastReady - passage.fed, 0));
      deviceHost.add(passage.fetched - passage.firstReady);
      roundTrip.add(passage.fetched - passage.asked);
    }
  }
  return {hostDevice.result(), compute.result(), deviceHost.result(), roundTrip.result()};
}

}  // namespace

std::int64_t cyclesOf(std::span<const TaskTime> times) {
  if (times.empty()) {
    return 0;
  }
  return std::ranges::max(times, {}, &TaskTime::end).end -
         std::ranges::min(times, {}, &TaskTime::start).start;
}

Latencies measureLatencies(const Trace& trace, std::span<const TaskTime> times) {
  std::int32_t rounds = 0;
  std::map<std::int32_t, Ends> ends;  // by replica
  for (const TaskTime& time : times) {
    rounds = std::max(rounds, time.round + 1);
    ends[time.replica].add(time);
  }
  const std::int64_t microBatches = std::int64_t{rounds} * trace.microBatchesPerRound;
  Passages passages;
  for (const TaskTime& time : times) {
    const TracedTask& task = trace.taskOf(time);
    const TracedSubject& subject = trace.subjectOf(task);
    const std::int64_t index =
        std::int64_t{time.round} * trace.microBatchesPerRound + task.microBatch;
    Passage& passage = passages[{index, time.replica}];
    if (subject.kind == TaskKind::Feed) {
      passage.hasInput = true;
      passage.asked = std::min(passage.asked, time.start);
      passage.fed = std::max(passage.fed, time.end);
    } else if (subject.kind == TaskKind::Drain && subject.rule.applies(index, microBatches)) {
      const std::int64_t ready = readyTime(task, time, ends[time.replica]);
      passage.hasOutput = true;
      passage.firstReady = std::min(passage.firstReady, ready);
      passage.lastReady = std::max(passage.lastReady, ready);
      passage.fetched = std::max(passage.fetched, time.end);
    }
  }
  return latenciesOf(passages);
}

}  // namespace sluice::profile
