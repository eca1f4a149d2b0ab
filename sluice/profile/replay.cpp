#include "sluice/profile/replay.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace sluice::profile {
namespace {

using runtime::TaskTime;

struct Mean {
  std::int64_t sum = 0;
  std::int64_t count = 0;
  std::int64_t value() const { return count == 0 ? 0 : sum / count; }
};

template <class F>
void forEachTime(const Trace& trace, const F& f) {
  for (const Trace::Step& step : trace.steps) {
    for (const TaskTime& time : step) {
      f(time, static_cast<std::size_t>(trace.taskOf(time).subject));
    }
  }
}

/// Of a round. A double, which does not overflow.
double totalOf(const Trace& trace, const Durations& durations) {
  double total = 0;
  for (const TracedLane& lane : trace.lanes) {
    for (const TracedTask& task : lane.tasks) {
      total += static_cast<double>(durations[static_cast<std::size_t>(task.subject)]);
    }
  }
  return total;
}

}  // namespace

Durations meanDurations(const Trace& trace) {
  std::vector<Mean> means(trace.subjects.size());
  forEachTime(trace, [&](const TaskTime& time, std::size_t subject) {
    means[subject].sum += time.end - time.start;
    ++means[subject].count;
  });
  Durations durations;
  for (const Mean& mean : means) {
    durations.push_back(mean.value());
  }
  return durations;
}

Durations evenDurations(const Trace& trace) {
  std::map<std::string_view, Mean> means;
  forEachTime(trace, [&](const TaskTime& time, std::size_t subject) {
    Mean& mean = means[trace.subjects[subject].category];
    mean.sum += time.end - time.start;
    ++mean.count;
  });
  Durations durations;
  for (const TracedSubject& subject : trace.subjects) {
    const auto mean = means.find(subject.category);
    durations.push_back(mean == means.end() ? 0 : mean->second.value());
  }
  return durations;
}

program::ClockRun replay(const Trace& trace, const Durations& durations, std::int32_t rounds) {
  // Only lanes and waits; every lane's subjects become segments of the same number.
  program::Program lanes;
  lanes.name = trace.name;
  lanes.microBatchesPerRound = trace.microBatchesPerRound;
  program::ClockCosts costs;
  costs.segments.push_back(0);  // whatever is in another lane than compute
  const bool sane = totalOf(trace, durations) * rounds < 1e18;  // a file may say anything
  for (const std::int64_t duration : durations) {
    costs.segments.push_back(sane ? duration : 0);
  }
  lanes.segments.resize(costs.segments.size());
  for (const TracedLane& lane : trace.lanes) {
    program::Lane& copy = lanes.lanes.emplace_back();
    copy.device = lane.device;
    copy.kind = lane.kind;
    for (const TracedTask& task : lane.tasks) {
      copy.tasks.push_back(
          {.kind = program::TaskKind::Run,
           .subject = lane.kind == program::LaneKind::Compute ? task.subject + 1 : 0,
           .microBatch = task.microBatch,
           .firstWait = static_cast<std::int32_t>(lanes.waits.size()),
           .numWaits = static_cast<std::int32_t>(task.waits.size())});
      lanes.waits.insert(lanes.waits.end(), task.waits.begin(), task.waits.end());
    }
  }
  return program::runOnClock(lanes, costs, rounds);
}

Gaps::Gaps(const Trace& trace, const program::ClockRun& run, std::int32_t rounds)
    : t_(trace), gaps_(trace.lanes.size()), atEnd_(trace.lanes.size()), rounds_(rounds) {
  for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
    std::int64_t end = 0;
    for (const program::TaskSpan& span : run.lanes[l]) {
      gaps_[l].push_back(span.start - end);
      end = span.end;
    }
    atEnd_[l] = run.end - end;
  }
}

std::int64_t Gaps::before(const TaskTime* next, const TaskTime& last) const {
  if (next == nullptr) {
    return atEnd_[static_cast<std::size_t>(last.lane)];
  }
  const std::size_t tasks = t_.laneOf(*next).tasks.size();
  const auto round = static_cast<std::size_t>(std::min(next->round, rounds_ - 1));
  return gaps_[static_cast<std::size_t>(next->lane)]
              [round * tasks + static_cast<std::size_t>(next->task)];
}

}  // namespace sluice::profile
