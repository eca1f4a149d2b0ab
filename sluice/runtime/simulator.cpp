#include "sluice/runtime/simulator.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/program/program_text.h"

namespace sluice::runtime {
namespace {

using program::Program;
using program::Task;
using program::TaskKind;

/// A task that can start but for its resources. The smallest goes first.
struct Ready {
  std::int64_t priority = 0;
  std::size_t lane = 0;  // over all replicas
  bool operator>(const Ready& other) const {
    return std::tie(priority, lane) > std::tie(other.priority, other.lane);
  }
};
using ReadyQueue = std::priority_queue<Ready, std::vector<Ready>, std::greater<>>;

enum class EventKind : std::uint8_t { Release, Done, Both, Awake };

/// At the same time the order of events does not matter: nothing starts before all have happened.
struct Event {
  std::int64_t time = 0;
  std::size_t lane = 0;
  EventKind kind = EventKind::Both;
  bool operator>(const Event& other) const {
    return std::tie(time, lane) > std::tie(other.time, other.lane);
  }
};

/// A lane of one replica.
struct SimLane {
  const program::Lane* plan = nullptr;
  std::int32_t replica = 0;
  std::int64_t done = 0;   // tasks that have ended
  std::int64_t unmet = 0;  // waits of the next task that are still open
  std::int64_t since = 0;  // when the next task could start but for resources
  struct Waiter {
    std::int64_t count = 0;  // of tasks that must be done
    std::size_t lane = 0;
  };
  std::vector<Waiter> waiters;
  std::size_t firstTime = 0;  // of its tasks, in SimRun::times
};

struct Pool {
  std::int32_t free = 0;
  ReadyQueue queue;  // not empty only while nothing is free
};

class Simulation {
 public:
  Simulation(const Program& program, const SimCosts& costs, const SimOptions& options)
      : p_(program), costs_(costs), o_(options) {
    makeLanes();
    makePools();
    std::int64_t first = 0;
    std::int64_t last = 0;
    for (const program::Lane& lane : p_.lanes) {
      for (const Task& task : lane.tasks) {
        first = std::min(first, task.plannedStart);
        last = std::max(last, task.plannedStart);
      }
    }
    roundSpan_ = last - first + 1;
  }

  SimRun run() {
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      arrive(l);
    }
    for (;;) {
      startReady();
      if (events_.empty()) {
        break;
      }
      now_ = events_.top().time;
      while (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        happen(event);
      }
    }
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      requireFinished(l);
    }
    result_.ticksPerSecond = costs_.ticksPerSecond;
    return std::move(result_);
  }

 private:
  void makeLanes() {
    std::size_t times = 0;
    for (std::int32_t r = 0; r < o_.replicas; ++r) {
      for (const program::Lane& lane : p_.lanes) {
        lanes_.push_back({.plan = &lane, .replica = r, .waiters = {}, .firstTime = times});
        times += lane.tasks.size() * static_cast<std::size_t>(o_.rounds);
      }
    }
    result_.times.resize(o_.keepsTimes ? times : 0);
    result_.laneTicks.resize(p_.lanes.size());
  }

  void makePools() {
    for (std::size_t i = 0; i < costs_.resources.size(); ++i) {
      const SimResource& resource = costs_.resources[i];
      firstPool_.push_back(pools_.size());
      for (std::int32_t r = 0; r < (resource.shared ? 1 : o_.replicas); ++r) {
        pools_.push_back({.free = resource.capacity, .queue = {}});
        result_.resources.push_back(
            {.resource = static_cast<std::int32_t>(i), .replica = resource.shared ? -1 : r});
      }
    }
  }

  std::size_t poolOf(std::int32_t resource, const SimLane& lane) const {
    const auto i = static_cast<std::size_t>(resource);
    return firstPool_[i] +
           (costs_.resources[i].shared ? 0 : static_cast<std::size_t>(lane.replica));
  }

  bool finished(const SimLane& lane) const {
    return lane.done == std::ssize(lane.plan->tasks) * o_.rounds;
  }
  const Task& next(const SimLane& lane) const {
    return lane.plan->tasks[static_cast<std::size_t>(lane.done % std::ssize(lane.plan->tasks))];
  }
  std::int32_t roundOf(const SimLane& lane) const {
    return static_cast<std::int32_t>(lane.done / std::ssize(lane.plan->tasks));
  }

  const SimCost& costOf(const SimLane& lane) const {
    static const SimCost kNothing;
    const Task& task = next(lane);
    const auto in = [&](const std::vector<SimCost>& list) -> const SimCost& {
      return list.empty() ? kNothing : list[static_cast<std::size_t>(task.subject)];
    };
    switch (task.kind) {
      case TaskKind::Run:
        return isPackedAlready(lane) ? kNothing : in(costs_.segments);
      case TaskKind::Feed:
        return in(costs_.feeds);
      case TaskKind::Drain:
        return drains(lane) ? in(costs_.drains) : kNothing;
      case TaskKind::Transfer:
        return in(costs_.transfers);
      case TaskKind::Reduce:
        return in(costs_.collectives);
      case TaskKind::Barrier:
        return costs_.barrier;
      case TaskKind::Send:
      case TaskKind::Receive:
        break;
    }
    return in(costs_.messages);
  }

  /// As in the Engine: packed copies that are kept are made once.
  bool isPackedAlready(const SimLane& lane) const {
    return p_.keepsPacked && (o_.hasPacked || roundOf(lane) > 0) &&
           p_.segments[static_cast<std::size_t>(next(lane).subject)].kind ==
               program::SegmentKind::Pack;
  }

  bool drains(const SimLane& lane) const {
    const std::int64_t perRound = p_.microBatchesPerRound;
    return p_.drains[static_cast<std::size_t>(next(lane).subject)].rule.applies(
        roundOf(lane) * perRound + next(lane).microBatch, perRound * o_.rounds);
  }

  /// The lane looks at its next task.
  void arrive(std::size_t number) {
    SimLane& lane = lanes_[number];
    if (finished(lane)) {
      return;
    }
    const std::int32_t round = roundOf(lane);
    for (const program::Wait& wait : p_.waitsOf(next(lane))) {
      if (round < wait.roundsBack) {
        continue;
      }
      const auto first = static_cast<std::size_t>(wait.allReplicas ? 0 : lane.replica);
      const auto last = static_cast<std::size_t>(wait.allReplicas ? o_.replicas - 1 : lane.replica);
      for (std::size_t r = first; r <= last; ++r) {
        SimLane& other = lanes_[r * p_.lanes.size() + static_cast<std::size_t>(wait.lane)];
        const std::int64_t count =
            (round - wait.roundsBack) * std::ssize(other.plan->tasks) + wait.task + 1;
        if (other.done < count) {
          other.waiters.push_back({count, number});
          ++lane.unmet;
        }
      }
    }
    if (lane.unmet == 0) {
      becomeReady(number);
    }
  }

  void becomeReady(std::size_t number) {
    SimLane& lane = lanes_[number];
    lane.since = now_;
    if (costOf(lane).resources.empty()) {
      start(number);
    } else {
      ready_.push({roundOf(lane) * roundSpan_ + next(lane).plannedStart, number});
    }
  }

  /// Starts what can start, the most urgent first, up to a task that ends at once: what waits for
  /// it may be more urgent than the rest.
  void startReady() {
    while (!ready_.empty()) {
      const Ready task = ready_.top();
      ready_.pop();
      const SimLane& lane = lanes_[task.lane];
      const SimCost& cost = costOf(lane);
      const auto full = std::ranges::find_if(cost.resources, [&](std::int32_t resource) {
        return pools_[poolOf(resource, lane)].free == 0;
      });
      if (full != cost.resources.end()) {
        pools_[poolOf(*full, lane)].queue.push(task);
        // It may have been called for a resource that it leaves to others.
        for (const std::int32_t resource : cost.resources) {
          callNext(pools_[poolOf(resource, lane)]);
        }
        continue;
      }
      start(task.lane);
      if (cost.busy + cost.latency == 0) {
        return;
      }
    }
  }

  void callNext(Pool& pool) {
    if (pool.free > 0 && !pool.queue.empty()) {
      ready_.push(pool.queue.top());
      pool.queue.pop();
    }
  }

  void start(std::size_t number) {
    SimLane& lane = lanes_[number];
    const SimCost& cost = costOf(lane);
    for (const std::int32_t resource : cost.resources) {
      const std::size_t pool = poolOf(resource, lane);
      --pools_[pool].free;
      result_.resources[pool].busy += cost.busy;
      result_.resources[pool].waited += now_ - lane.since;
    }
    const std::int64_t end = now_ + cost.busy + cost.latency;
    const std::int64_t place = lane.done;
    if (o_.keepsTimes) {
      result_.times[lane.firstTime + static_cast<std::size_t>(place)] = {
          .lane = static_cast<std::int32_t>(number % p_.lanes.size()),
          .task = static_cast<std::int32_t>(place % std::ssize(lane.plan->tasks)),
          .round = roundOf(lane),
          .start = now_,
          .end = end,
          .replica = lane.replica};
    }
    result_.laneTicks[number % p_.lanes.size()] += end - now_;
    result_.end = std::max(result_.end, end);
    if (cost.latency > 0 && !cost.resources.empty()) {
      events_.push({now_ + cost.busy, number, EventKind::Release});
      events_.push({end, number, EventKind::Done});
    } else {
      events_.push({end, number, EventKind::Both});
    }
  }

  void happen(const Event& event) {
    SimLane& lane = lanes_[event.lane];
    if (event.kind == EventKind::Awake) {
      becomeReady(event.lane);
      return;
    }
    if (event.kind != EventKind::Done) {
      for (const std::int32_t resource : costOf(lane).resources) {
        Pool& pool = pools_[poolOf(resource, lane)];
        ++pool.free;
        callNext(pool);
      }
    }
    if (event.kind == EventKind::Release) {
      return;
    }
    ++lane.done;
    freed_.clear();
    std::erase_if(lane.waiters, [&](const SimLane::Waiter& waiter) {
      if (waiter.count <= lane.done && --lanes_[waiter.lane].unmet == 0) {
        freed_.push_back(waiter.lane);
      }
      return waiter.count <= lane.done;
    });
    for (const std::size_t other : freed_) {
      if (costs_.wake > 0 && (sleeps(lane) || sleeps(lanes_[other]))) {
        events_.push({now_ + costs_.wake, other, EventKind::Awake});
      } else {
        becomeReady(other);
      }
    }
    arrive(event.lane);
  }

  static bool sleeps(const SimLane& lane) {
    switch (lane.plan->kind) {
      case program::LaneKind::Fetch:
      case program::LaneKind::Flush:
      case program::LaneKind::Send:
      case program::LaneKind::Receive:
        return true;
      case program::LaneKind::Compute:
      case program::LaneKind::Exchange:
      case program::LaneKind::Load:
      case program::LaneKind::Store:
        break;
    }
    return false;
  }

  void requireFinished(std::size_t number) const {
    const SimLane& lane = lanes_[number];
    if (!finished(lane)) {
      program::broken(
          p_,
          "deadlock in virtual time: {} cannot start",
          program::taskText(p_,
                            number % p_.lanes.size(),
                            static_cast<std::size_t>(lane.done % std::ssize(lane.plan->tasks))));
    }
  }

  const Program& p_;
  const SimCosts& costs_;
  const SimOptions& o_;
  std::int64_t roundSpan_ = 1;
  std::int64_t now_ = 0;
  std::vector<SimLane> lanes_;
  std::vector<std::size_t> firstPool_;  // by resource
  std::vector<Pool> pools_;
  ReadyQueue ready_;
  std::vector<std::size_t> freed_;  // lanes whose last wait has ended
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  SimRun result_;
};

void requireFits(std::span<const SimCost> list,
                 std::size_t wanted,
                 const SimCosts& costs,
                 std::string_view what) {
  if (!list.empty() && list.size() != wanted) {
    raise<InvalidArgument>(
        "simulate: expected a cost for each of {} {}, got {}", wanted, what, list.size());
  }
  for (const SimCost& cost : list) {
    if (cost.busy < 0 || cost.latency < 0) {
      raise<InvalidArgument>("simulate: a cost of {} is negative", what);
    }
    for (std::size_t i = 0; i < cost.resources.size(); ++i) {
      const std::int32_t resource = cost.resources[i];
      if (resource < 0 || resource >= std::ssize(costs.resources)) {
        raise<InvalidArgument>("simulate: {} use resource {}, and there are {}",
                               what,
                               resource,
                               costs.resources.size());
      }
      if (std::find(cost.resources.begin(),
                    cost.resources.begin() + static_cast<long>(i),
                    resource) != cost.resources.begin() + static_cast<long>(i)) {
        raise<InvalidArgument>("simulate: {} use resource {} twice", what, resource);
      }
    }
  }
}

}  // namespace

std::vector<TaskTime> SimRun::nanoseconds() const {
  const auto converted = [&](std::int64_t ticks) {
    constexpr std::int64_t kPerSecond = 1'000'000'000;
    // In two parts, so that nothing overflows and nothing is lost.
    return ticks / ticksPerSecond * kPerSecond +
           ticks % ticksPerSecond * kPerSecond / ticksPerSecond;
  };
  std::vector<TaskTime> all = times;
  for (TaskTime& time : all) {
    time.start = converted(time.start);
    time.end = converted(time.end);
  }
  return all;
}

SimRun simulate(const Program& program, const SimCosts& costs, const SimOptions& options) {
  if (options.rounds < 1 || options.replicas < 1) {
    raise<InvalidArgument>("simulate: rounds and replicas must be at least 1, got {} and {}",
                           options.rounds,
                           options.replicas);
  }
  if (costs.ticksPerSecond < 1 || costs.ticksPerSecond > kMostTicksPerSecond) {
    raise<InvalidArgument>("simulate: expected from 1 to {} ticks per second, got {}",
                           kMostTicksPerSecond,
                           costs.ticksPerSecond);
  }
  if (costs.wake < 0) {
    raise<InvalidArgument>("simulate: waking takes {} ticks, which is negative", costs.wake);
  }
  for (const SimResource& resource : costs.resources) {
    if (resource.capacity < 1) {
      raise<InvalidArgument>(
          "simulate: resource '{}' has room for {} tasks", resource.name, resource.capacity);
    }
  }
  requireFits(costs.segments, program.segments.size(), costs, "segments");
  requireFits(costs.feeds, program.feeds.size(), costs, "inputs");
  requireFits(costs.drains, program.drains.size(), costs, "outputs");
  requireFits(costs.transfers, program.transfers.size(), costs, "transfers");
  requireFits(costs.collectives, program.collectives.size(), costs, "collectives");
  requireFits(costs.messages, program.messages.size(), costs, "messages");
  requireFits({&costs.barrier, 1}, 1, costs, "barriers");
  return Simulation(program, costs, options).run();
}

}  // namespace sluice::runtime
