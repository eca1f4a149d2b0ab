#include "sluice/program/virtual_clock.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "sluice/program/program_text.h"

namespace sluice::program {
namespace {

class Clock {
 public:
  Clock(const Program& program, const ClockCosts& costs, std::int32_t rounds)
      : p_(program), costs_(costs), rounds_(rounds), blocked_(program.lanes.size()) {
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    result_.lanes.resize(program.lanes.size());
    result_.loops.assign(static_cast<std::size_t>(rounds), {kNever, 0});
    result_.slotsInUse.assign(program.buffers.size(), 0);
    held_.resize(program.buffers.size());
  }

  ClockRun run() {
    std::vector<std::size_t> runnable;
    for (std::size_t l = p_.lanes.size(); l-- > 0;) {
      runnable.push_back(l);
    }
    while (!runnable.empty()) {
      const std::size_t lane = runnable.back();
      runnable.pop_back();
      advance(lane, runnable);
    }
    for (std::size_t l = 0; l < p_.lanes.size(); ++l) {
      if (!finished(l)) {
        broken(p_,
               "deadlock on the virtual clock: {} cannot start",
               taskText(p_, l, done(l) % p_.lanes[l].tasks.size()));
      }
    }
    countSlots();
    return std::move(result_);
  }

 private:
  struct Blocked {
    std::size_t lane = 0;
    std::size_t count = 0;  // that lets it go on
  };

  std::size_t done(std::size_t lane) const { return result_.lanes[lane].size(); }
  bool finished(std::size_t lane) const {
    return done(lane) == p_.lanes[lane].tasks.size() * static_cast<std::size_t>(rounds_);
  }

  /// The count of finished tasks that a wait asks for; 0 when its round never was.
  std::size_t wanted(const Wait& wait, std::int32_t round) const {
    const std::size_t perRound = p_.lanes[wait.lane].tasks.size();
    return round < wait.roundsBack ? 0
                                   : static_cast<std::size_t>(round - wait.roundsBack) * perRound +
                                         static_cast<std::size_t>(wait.task) + 1;
  }

  std::int64_t costOf(const Task& task) const {
    const auto cost = [&](const Table<std::int64_t>& costs) {
      return costs.empty() ? 0 : costs[task.subject];
    };
    switch (task.kind) {
      case TaskKind::Run:
        return cost(costs_.segments);
      case TaskKind::Transfer:
        return cost(costs_.transfers);
      case TaskKind::Feed:
        return cost(costs_.feeds);
      case TaskKind::Drain:
        return cost(costs_.drains);
      default:
        return 0;
    }
  }

  void advance(std::size_t lane, std::vector<std::size_t>& runnable) {
    const std::vector<Task>& tasks = p_.lanes[lane].tasks;
    std::vector<TaskSpan>& spans = result_.lanes[lane];
    while (!finished(lane)) {
      const Task& task = tasks[spans.size() % tasks.size()];
      const auto round = static_cast<std::int32_t>(spans.size() / tasks.size());
      std::int64_t start = spans.empty() ? 0 : spans.back().end;
      for (const Wait& wait : p_.waitsOf(task)) {
        const auto other = static_cast<std::size_t>(wait.lane);
        const std::size_t count = wanted(wait, round);
        if (done(other) < count) {
          blocked_[other].push_back({lane, count});
          return;
        }
        start = count == 0 ? start : std::max(start, result_.lanes[other][count - 1].end);
      }
      spans.push_back({start, start + costOf(task)});
      record(task, round, spans.back());
      std::erase_if(blocked_[lane], [&](const Blocked& other) {
        if (other.count <= spans.size()) {
          runnable.push_back(other.lane);
        }
        return other.count <= spans.size();
      });
    }
  }

  void record(const Task& task, std::int32_t round, const TaskSpan& span) {
    result_.end = std::max(result_.end, span.end);
    if (task.kind == TaskKind::Run && !p_.segments[task.subject].oncePerRound()) {
      TaskSpan& loop = result_.loops[round];
      loop.start = std::min(loop.start, span.start);
      loop.end = std::max(loop.end, span.end);
    }
    const std::int64_t value =
        static_cast<std::int64_t>(round) * p_.microBatchesPerRound + task.microBatch;
    for (const Slot& slot : p_.slotsOf(task)) {
      const auto [held, first] = held_[slot.buffer.index()].emplace(value, span);
      if (!first) {
        held->second.start = std::min(held->second.start, span.start);
        held->second.end = std::max(held->second.end, span.end);
      }
    }
  }

  /// A slot that is given up at a time may be taken at the same time.
  void countSlots() {
    for (std::size_t b = 0; b < held_.size(); ++b) {
      std::vector<std::pair<std::int64_t, std::int32_t>> changes;
      for (const auto& [value, span] : held_[b]) {
        changes.emplace_back(span.start, 1);
        changes.emplace_back(span.end, -1);
      }
      std::ranges::sort(changes);
      std::int32_t now = 0;
      for (const auto& [time, change] : changes) {
        now += change;
        result_.slotsInUse[b] = std::max(result_.slotsInUse[b], now);
      }
    }
  }

  const Program& p_;
  const ClockCosts& costs_;
  std::int32_t rounds_;
  std::vector<std::vector<Blocked>> blocked_;           // by the lane that is waited for
  std::vector<std::map<std::int64_t, TaskSpan>> held_;  // by buffer and micro-batch
  ClockRun result_;
};

}  // namespace

ClockRun runOnClock(const Program& program, const ClockCosts& costs, std::int32_t rounds) {
  return Clock(program, costs, rounds).run();
}

}  // namespace sluice::program
