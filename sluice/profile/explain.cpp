#include "sluice/profile/explain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sluice/profile/chain.h"
#include "sluice/profile/replay.h"

namespace sluice::profile {
namespace {

using program::LaneKind;
using runtime::TaskTime;

/// Begin and end of the kernels of a device in a step, in order.
using Work = std::vector<const TaskTime*>;

std::vector<Work> workOf(const Trace& trace, const Trace::Step& step) {
  std::vector<Work> work(trace.numDevices());
  for (const TaskTime& time : step) {
    if (trace.laneOf(time).kind == LaneKind::Compute) {
      work[trace.deviceOf(time)].push_back(&time);
    }
  }
  return work;
}

/// A stretch, and how the time in which other devices compute is divided.
struct Found {
  IdleStretch stretch;
  const TaskTime* next = nullptr;
  std::int64_t computing = 0;
  std::int64_t ramp = 0;
  std::int64_t imbalance = 0;
  std::int64_t rest() const { return computing - ramp - imbalance; }
};

class Explainer {
 public:
  explicit Explainer(const Trace& trace)
      : t_(trace), means_(meanDurations(trace)), stages_(stageTimes(trace, means_)) {
    result_.devices.resize(trace.numDevices());
  }

  Explanation run() {
    for (std::size_t s = 0; s < t_.steps.size(); ++s) {
      if (!t_.steps[s].empty()) {
        addStep(static_cast<std::int32_t>(s));
      }
    }
    result_.stages = stages_;
    addSubjects();
    for (const auto& [key, time] : path_) {
      result_.criticalPath.push_back({key.subject, key.waiting, key.cause, time});
    }
    std::ranges::stable_sort(result_.criticalPath,
                             std::ranges::greater{},
                             [](const PathPart& part) { return part.time; });
    return std::move(result_);
  }

 private:
  struct PathKey {
    std::int32_t subject;
    bool waiting;
    Cause cause;
    auto operator<=>(const PathKey&) const = default;
  };

  void addStep(std::int32_t number) {
    const Trace::Step& step = t_.steps[static_cast<std::size_t>(number)];
    const std::int32_t rounds = roundsOf(step);
    const Replays& replays = replayed(rounds);
    result_.ideal += replays.ideal.end;
    result_.even += std::min(replays.even.end, replays.ideal.end);
    const Gaps even(t_, replays.even, rounds);
    const Gaps ideal(t_, replays.ideal, rounds);
    const Chains chains(t_, step);
    const std::int64_t begin = Trace::beginOf(step);
    const std::int64_t end = Trace::endOf(step);
    result_.measured += end - begin;
    const std::vector<Work> work = workOf(t_, step);
    std::vector<std::vector<Found>> found;
    for (std::size_t d = 0; d < work.size(); ++d) {
      found.push_back(addDevice({d, number, begin, end}, work[d], chains, {even, ideal}));
    }
    limitImbalance(found, savedBy(replays));
    for (std::vector<Found>& device : found) {
      for (Found& each : device) {
        finish(each, begin, chains);
      }
    }
    addPath(chains, begin, end);
  }

  struct Span {
    std::size_t device;
    std::int32_t step;
    std::int64_t begin;
    std::int64_t end;
  };

  /// Rounds that a replay needs; not more than ran, whatever their numbers are.
  std::int32_t roundsOf(const Trace::Step& step) const {
    std::int32_t last = 0;
    std::size_t tasks = 1;
    for (const TaskTime& time : step) {
      last = std::max(last, time.round);
    }
    for (const TracedLane& lane : t_.lanes) {
      tasks += lane.tasks.size();
    }
    const std::size_t most = step.size() / tasks + 2;
    return static_cast<std::int32_t>(std::min(static_cast<std::size_t>(last) + 1, most));
  }

  struct Replays {
    program::ClockRun ideal;
    program::ClockRun even;
  };

  /// All steps with the same number of rounds have the same.
  const Replays& replayed(std::int32_t rounds) {
    const auto [known, isNew] = replays_.try_emplace(rounds);
    if (isNew) {
      known->second = {replay(t_, means_, rounds), replay(t_, evenDurations(t_), rounds)};
    }
    return known->second;
  }

  /// Idle time of all devices that equal stages would save. It is nothing where one device works
  /// at a time: the idle time would only move from one device to another.
  std::int64_t savedBy(const Replays& replays) const {
    std::int64_t lanes = 0;
    for (const TracedLane& lane : t_.lanes) {
      lanes += lane.kind == LaneKind::Compute && !lane.tasks.empty() ? 1 : 0;
    }
    return std::max<std::int64_t>(lanes * t_.replicas * (replays.ideal.end - replays.even.end), 0);
  }

  /// Calls only so much imbalance, in all, as equal stages would save; the rest is ramp.
  static void limitImbalance(std::vector<std::vector<Found>>& found, std::int64_t saved) {
    std::int64_t sum = 0;
    for (const std::vector<Found>& device : found) {
      for (const Found& each : device) {
        sum += each.imbalance;
      }
    }
    if (sum <= saved) {
      return;
    }
    for (std::vector<Found>& device : found) {
      for (Found& each : device) {
        const auto kept =
            static_cast<std::int64_t>(static_cast<double>(each.imbalance) *
                                      static_cast<double>(saved) / static_cast<double>(sum));
        each.ramp += each.imbalance - kept;
        each.imbalance = kept;
      }
    }
  }

  struct ReplayGaps {
    const Gaps& even;
    const Gaps& ideal;
  };

  std::vector<Found> addDevice(const Span& span,
                               const Work& work,
                               const Chains& chains,
                               const ReplayGaps& gaps) {
    DeviceIdle& device = result_.devices[span.device];
    device.span += span.end - span.begin;
    std::vector<Found> found;
    Budget budget;
    std::int64_t since = span.begin;
    const auto addUpTo = [&](std::int64_t end, const TaskTime* next) {
      const std::int64_t equal = gaps.even.before(next, *work.back());
      const std::int64_t uneven =
          std::max<std::int64_t>(gaps.ideal.before(next, *work.back()) - equal, 0);
      budget.ramp += equal;
      budget.imbalance += uneven;
      if (end > since) {
        Found& added = found.emplace_back(stretch(span, since, end, next, chains));
        added.ramp = std::min(added.computing, equal);
        added.imbalance = std::min(added.computing - added.ramp, uneven);
      }
    };
    for (const TaskTime* time : work) {
      addUpTo(time->start, time);
      device.busy += std::max<std::int64_t>(time->end - std::max(since, time->start), 0);
      since = std::max(since, time->end);
    }
    if (!work.empty()) {
      addUpTo(span.end, nullptr);
    } else if (span.end > span.begin) {  // it has no kernels: the schedule does not use it
      found.emplace_back(Found{unused(span)});
    }
    spend(found, budget);
    return found;
  }

  /// Idle time of a whole step that kernels alone would cause.
  struct Budget {
    std::int64_t ramp = 0;
    std::int64_t imbalance = 0;
  };

  static IdleStretch unused(const Span& span) {
    return {.device = span.device,
            .step = span.step,
            .begin = span.begin,
            .end = span.end,
            .parts = {{.cause = Cause::Ramp, .time = span.end - span.begin}}};
  }

  Found stretch(const Span& span,
                std::int64_t begin,
                std::int64_t end,
                const TaskTime* next,
                const Chains& chains) const {
    Found found{.stretch = {.device = span.device,
                            .step = span.step,
                            .begin = begin,
                            .end = end,
                            .nextLane = next == nullptr ? -1 : next->lane,
                            .nextTask = next == nullptr ? -1 : next->task,
                            .parts = {}},
                .next = next};
    chains.follow(next, begin, end, [&](const ChainPart& part) {
      found.stretch.parts.push_back(partOf(part, part.end - part.begin));
      found.computing += part.cause == Cause::Ramp ? part.end - part.begin : 0;
      return true;
    });
    return found;
  }

  static IdlePart partOf(const ChainPart& part, std::int64_t time) {
    return {.cause = part.cause, .time = time, .lane = part.task->lane, .task = part.task->task};
  }

  /// Others compute. As long as equal stages would make the device wait that is ramp, and as long
  /// as these kernels alone would, imbalance: first where they would, then elsewhere. The rest is
  /// the delay of something before.
  static void spend(std::vector<Found>& found, Budget budget) {
    for (const Found& each : found) {
      budget.ramp -= each.ramp;
      budget.imbalance -= each.imbalance;
    }
    for (Found& each : found) {
      const std::int64_t ramp = std::clamp<std::int64_t>(each.rest(), 0, budget.ramp);
      each.ramp += ramp;
      budget.ramp -= ramp;
      const std::int64_t uneven = std::clamp<std::int64_t>(each.rest(), 0, budget.imbalance);
      each.imbalance += uneven;
      budget.imbalance -= uneven;
    }
  }

  void finish(Found& found, std::int64_t begin, const Chains& chains) {
    std::vector<IdlePart> delays;
    if (found.rest() > 0) {
      delays = delaysBefore(found, begin, chains);
    }
    blame(found, delays);
    for (const IdlePart& part : found.stretch.parts) {
      result_.devices[found.stretch.device].causes[static_cast<std::size_t>(part.cause)] +=
          part.time;
    }
    result_.stretches.push_back(std::move(found.stretch));
  }

  /// What delayed the tasks that were waited for, before the stretch began; not more than its rest.
  static std::vector<IdlePart> delaysBefore(const Found& found,
                                            std::int64_t begin,
                                            const Chains& chains) {
    constexpr int kMostParts = 256;
    std::vector<IdlePart> delays;
    std::int64_t rest = found.rest();
    int parts = 0;
    chains.follow(found.next, begin, found.stretch.end, [&](const ChainPart& part) {
      const std::int64_t time =
          std::min(std::min(part.end, found.stretch.begin) - part.begin, rest);
      if (part.cause != Cause::Ramp && time > 0) {
        delays.push_back(partOf(part, time));
        rest -= time;
      }
      return rest > 0 && ++parts < kMostParts;
    });
    return delays;
  }

  /// Replaces what the device waited for while others computed by its causes. Of the imbalance the
  /// longest stage is to blame, of the delays what caused them; what nothing explains are kernels
  /// that took longer than usual.
  void blame(Found& found, const std::vector<IdlePart>& delays) const {
    std::vector<IdlePart>& parts = found.stretch.parts;
    std::int64_t delayed = 0;
    for (const IdlePart& delay : delays) {
      delayed += delay.time;
    }
    std::int64_t uneven = found.computing - found.ramp - delayed;
    std::vector<IdlePart> computing;
    for (const IdlePart& part : parts) {
      if (part.cause == Cause::Ramp) {
        computing.push_back(part);
      }
    }
    if (found.computing == 0) {
      return;
    }
    std::erase_if(parts, [](const IdlePart& part) { return part.cause == Cause::Ramp; });
    std::ranges::stable_sort(
        computing, std::ranges::greater{}, [&](const IdlePart& part) { return stageTimeOf(part); });
    std::int64_t ramp = found.ramp;
    for (IdlePart part : computing) {
      const std::int64_t time = part.time;
      const std::int64_t first = std::min(uneven, time);
      const std::int64_t second = std::min(ramp, time - first);
      for (const auto& [cause, share] :
           {std::pair(Cause::Imbalance, first), std::pair(Cause::Ramp, second)}) {
        if (share > 0) {
          part.cause = cause;
          part.time = share;
          parts.push_back(part);
        }
      }
      uneven -= first;
      ramp -= second;
    }
    parts.insert(parts.end(), delays.begin(), delays.end());
  }

  std::int64_t stageTimeOf(const IdlePart& part) const {
    const TracedTask& task =
        t_.lanes[static_cast<std::size_t>(part.lane)].tasks[static_cast<std::size_t>(part.task)];
    const auto stage = std::ranges::find(stages_, t_.subjectOf(task).stage, &StageTime::stage);
    return stage == stages_.end() ? means_[static_cast<std::size_t>(task.subject)] : stage->time();
  }

  void addPath(const Chains& chains, std::int64_t begin, std::int64_t end) {
    chains.follow(nullptr, begin, end, [&](const ChainPart& part) {
      const PathKey key{
          t_.taskOf(*part.task).subject, part.waiting, part.waiting ? part.cause : Cause::Cores};
      path_[key] += part.end - part.begin;
      return true;
    });
  }

  void addSubjects() {
    std::vector<SubjectTime> all(t_.subjects.size());
    for (const Trace::Step& step : t_.steps) {
      for (const TaskTime& time : step) {
        SubjectTime& subject = all[static_cast<std::size_t>(t_.taskOf(time).subject)];
        ++subject.count;
        subject.total += time.end - time.start;
        subject.longest = std::max(subject.longest, time.end - time.start);
      }
    }
    for (std::size_t s = 0; s < all.size(); ++s) {
      all[s].subject = static_cast<std::int32_t>(s);
      if (all[s].count > 0) {
        result_.subjects.push_back(all[s]);
      }
    }
    std::ranges::stable_sort(
        result_.subjects, std::ranges::greater{}, [](const SubjectTime& s) { return s.total; });
  }

  const Trace& t_;
  Durations means_;
  std::vector<StageTime> stages_;
  std::map<std::int32_t, Replays> replays_;  // by rounds
  double gain_ = 0;                          // of the step
  std::map<PathKey, std::int64_t> path_;
  Explanation result_;
};

}  // namespace

Explanation explain(const Trace& trace) {
  return Explainer(trace).run();
}

}  // namespace sluice::profile
