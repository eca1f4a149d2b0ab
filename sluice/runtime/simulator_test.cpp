// The Program in virtual time: against the pure scheduler, against times worked out by hand, and
// against the rules of the simulator itself on random costs.
#include "sluice/runtime/simulator.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/profile/explain.h"
#include "sluice/profile/memory_use.h"
#include "sluice/program/bare_program.h"
#include "sluice/program/barriers.h"
#include "sluice/program/virtual_clock.h"
#include "tests/support/message_of.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_kernels.h"

namespace sluice::runtime {
namespace {

using program::Lane;
using program::LaneKind;
using program::Program;
using program::SegmentKind;
using program::Task;
using program::TaskKind;
using schedule::PipelineKind;
using schedule::StageCost;
using schedule::SyncPattern;
using sluice::testing::Chain;
using sluice::testing::chainModel;
using sluice::testing::ChainRun;
using sluice::testing::lowerChain;
using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t costIn(SegmentKind kind, const StageCost& cost) {
  switch (kind) {
    case SegmentKind::Forward:
      return cost.forward;
    case SegmentKind::Backward:
      return cost.backwardInput + cost.backwardWeight;
    case SegmentKind::BackwardInput:
      return cost.backwardInput;
    case SegmentKind::BackwardWeight:
      return cost.backwardWeight;
    case SegmentKind::Pack:
    case SegmentKind::Update:
      break;
  }
  return 0;
}

SimCosts scheduleCosts(const Chain& chain, const std::vector<StageCost>& costs) {
  SimCosts result;
  for (const program::Segment& segment : chain.program.segments) {
    result.segments.push_back(
        {.busy = costIn(segment.kind, costs[static_cast<std::size_t>(segment.stage)])});
  }
  return result;
}

const Task& taskOf(const Program& p, const TaskTime& time) {
  return p.lanes[static_cast<std::size_t>(time.lane)].tasks[static_cast<std::size_t>(time.task)];
}

/// From the first start to the last end of a segment that runs per micro-batch.
std::int64_t makespan(const Program& p, const SimRun& run) {
  std::int64_t start = run.end;
  std::int64_t end = 0;
  for (const TaskTime& time : run.times) {
    const Task& task = taskOf(p, time);
    if (task.kind == TaskKind::Run &&
        !p.segments[static_cast<std::size_t>(task.subject)].oncePerRound()) {
      start = std::min(start, time.start);
      end = std::max(end, time.end);
    }
  }
  return end - start;
}

/// The most values of a ring that are alive at one time, by looking at every moment. A value lives
/// from the begin of its first task to the end of its last one.
std::int32_t mostAlive(const Program& p, const SimRun& run, std::size_t buffer) {
  std::map<std::int64_t, program::TaskSpan> lives;
  for (const TaskTime& time : run.times) {
    for (const program::Slot& slot : p.slotsOf(taskOf(p, time))) {
      if (slot.buffer.index() == buffer) {
        const std::int64_t value =
            std::int64_t{time.round} * p.microBatchesPerRound + taskOf(p, time).microBatch;
        auto [life, isNew] = lives.try_emplace(value, program::TaskSpan{time.start, time.end});
        life->second.start = std::min(life->second.start, time.start);
        life->second.end = std::max(life->second.end, time.end);
      }
    }
  }
  std::int64_t most = 0;
  for (const auto& [value, life] : lives) {
    most = std::max<std::int64_t>(
        most, std::ranges::count_if(lives, [&](const auto& other) {
          return other.second.start <= life.start &&
                 (other.second.end > life.start || other.second.start == life.start);
        }));
  }
  return static_cast<std::int32_t>(most);
}

TEST(Simulator, HasMakespanAndStashOfEverySchedule) {
  std::size_t rings = 0;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    for (const std::int32_t stages : {1, 2, 4}) {
      for (const std::int32_t microBatches : {1, 4, 8}) {
        for (const std::int32_t devices : {stages, (stages + 1) / 2}) {
          SCOPED_TRACE(fmt::format(
              "{} {} stages {} devices {}", schedule::name(kind), stages, devices, microBatches));
          ChainRun options{.microBatches = microBatches, .kind = kind};
          options.lookahead = 0;
          for (std::int32_t s = 0; s < stages; ++s) {
            options.deviceOfStage.push_back(s % devices);
            options.costs.push_back({});  // all 1
          }
          options.costs[0].backwardInput = 0;  // the input has no gradient
          const Chain chain =
              lowerChain(chainModel({.blocks = stages}), options, program::toyTargets());
          const SimRun run = simulate(chain.program, scheduleCosts(chain, options.costs));
          EXPECT_EQ(makespan(chain.program, run), chain.schedule.makespan);
          for (std::size_t b = 0; b < chain.program.buffers.size(); ++b) {
            if (chain.program.buffers[b].slots > 1) {
              EXPECT_EQ(mostAlive(chain.program, run, b), chain.program.buffers[b].slots)
                  << chain.program.buffers[b].name;
              ++rings;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(rings, 200U);
}

/// Without resources both say the same, in any number of rounds and for each replica.
TEST(Simulator, AgreesWithTheVirtualClock) {
  std::mt19937 random(24);
  const auto cost = [&] { return std::uniform_int_distribution<std::int64_t>(0, 9)(random); };
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    const Chain chain = lowerChain(chainModel({.blocks = 3, .skip = true}),
                                   {.deviceOfStage = {0, 1, 2}, .microBatches = 5, .kind = kind},
                                   program::toyTargets());
    const Program& p = chain.program;
    program::ClockCosts clock;
    SimCosts costs;
    const auto fill = [&](std::size_t count, auto& both, auto& ours) {
      for (std::size_t i = 0; i < count; ++i) {
        both.push_back(cost());
        // Time after the resources are given back is time all the same.
        const std::int64_t latency = both.back() / 2;
        ours.push_back({.busy = both.back() - latency, .latency = latency});
      }
    };
    fill(p.segments.size(), clock.segments, costs.segments);
    fill(p.transfers.size(), clock.transfers, costs.transfers);
    fill(p.feeds.size(), clock.feeds, costs.feeds);
    fill(p.drains.size(), clock.drains, costs.drains);
    const program::ClockRun expected = program::runOnClock(p, clock, 3);
    const SimRun run = simulate(p, costs, {.rounds = 3, .replicas = 2});
    EXPECT_EQ(run.end, expected.end);
    std::size_t compared = 0;
    for (const TaskTime& time : run.times) {
      const auto lane = static_cast<std::size_t>(time.lane);
      const std::size_t at = static_cast<std::size_t>(time.round) * p.lanes[lane].tasks.size() +
                             static_cast<std::size_t>(time.task);
      ASSERT_EQ((program::TaskSpan{time.start, time.end}), expected.lanes[lane][at]);
      ++compared;
    }
    EXPECT_EQ(compared, run.times.size());
  }
}

/// Lanes of kernels, one per device; tasks wait as they are told.
struct HandMade {
  Program p;
  std::int32_t lane(std::int32_t device, LaneKind kind) {
    p.lanes.push_back({.device = device, .kind = kind, .tasks = {}});
    return static_cast<std::int32_t>(p.lanes.size()) - 1;
  }
  void task(std::int32_t lane, const Task& task, const std::vector<program::Wait>& waits = {}) {
    Task& added = p.lanes[static_cast<std::size_t>(lane)].tasks.emplace_back(task);
    added.firstWait = static_cast<std::int32_t>(p.waits.size());
    added.numWaits = static_cast<std::int32_t>(waits.size());
    p.waits.insert(p.waits.end(), waits.begin(), waits.end());
  }
};

std::vector<program::TaskSpan> spansOf(const SimRun& run, std::int32_t lane, int replica = 0) {
  std::vector<program::TaskSpan> spans;
  for (const TaskTime& time : run.times) {
    if (time.lane == lane && time.replica == replica) {
      spans.push_back({time.start, time.end});
    }
  }
  return spans;
}

TEST(Simulator, ServesAPortInOrderAndLetsLatenciesOverlap) {
  // Devices 0 and 1 compute 3 and 4 ticks, then both send to device 2, whose port is busy for 5;
  // the data is there 2 later.
  HandMade made;
  made.p.name = "hand";
  made.p.segments.resize(2);
  made.p.transfers.resize(2);
  for (std::int32_t d = 0; d < 2; ++d) {
    made.task(made.lane(d, LaneKind::Compute), {.subject = d});
  }
  for (std::int32_t d = 0; d < 2; ++d) {
    made.task(made.lane(2, LaneKind::Exchange),
              {.kind = TaskKind::Transfer, .subject = d},
              {{.lane = d, .task = 0}});
  }
  SimCosts costs;
  costs.resources = {{.name = "in 2"}};
  costs.segments = {{.busy = 3}, {.busy = 4}};
  costs.transfers.assign(2, {.busy = 5, .latency = 2, .resources = {0}});
  const SimRun run = simulate(made.p, costs);
  EXPECT_THAT(spansOf(run, 2), ElementsAre(program::TaskSpan{3, 10}));
  EXPECT_THAT(spansOf(run, 3),
              ElementsAre(program::TaskSpan{8, 15}));  // not before the port is free
  EXPECT_EQ(run.end, 15);
  EXPECT_EQ(run.resources[0].busy, 10);
  EXPECT_EQ(run.resources[0].waited, 4);
}

TEST(Simulator, GivesACoreToTheTaskWithTheEarliestPlannedStart) {
  HandMade made;
  made.p.segments.resize(3);
  for (std::int32_t d = 0; d < 3; ++d) {
    const std::int32_t lane = made.lane(d, LaneKind::Compute);
    made.task(lane, {.subject = d, .plannedStart = 10 - d});
  }
  SimCosts costs;
  costs.resources = {{.name = "cores", .capacity = 1, .shared = true}};
  costs.segments.assign(3, {.busy = 7, .resources = {0}});
  const SimRun run = simulate(made.p, costs);
  EXPECT_THAT(spansOf(run, 2), ElementsAre(program::TaskSpan{0, 7}));
  EXPECT_THAT(spansOf(run, 1), ElementsAre(program::TaskSpan{7, 14}));
  EXPECT_THAT(spansOf(run, 0), ElementsAre(program::TaskSpan{14, 21}));
}

TEST(Simulator, WakesWhatSleepsForRemoteMemory) {
  // A fetch of 5, what reads it 3, then a second fetch; the kernel after the first one waits for
  // nobody, the last one for the second fetch, which ends before it is needed.
  HandMade made;
  made.p.segments.resize(3);
  made.p.transfers.resize(2);
  const std::int32_t fetch = made.lane(0, LaneKind::Fetch);
  const std::int32_t compute = made.lane(0, LaneKind::Compute);
  made.task(fetch, {.kind = TaskKind::Transfer, .subject = 0});
  made.task(fetch, {.kind = TaskKind::Transfer, .subject = 1}, {{.lane = compute, .task = 0}});
  made.task(compute, {.subject = 0}, {{.lane = fetch, .task = 0}});
  made.task(compute, {.subject = 1});
  made.task(compute, {.subject = 2}, {{.lane = fetch, .task = 1}});
  SimCosts costs;
  costs.segments = {{.busy = 3}, {.busy = 20}, {.busy = 1}};
  costs.transfers.assign(2, {.busy = 5});
  costs.wake = 2;
  const SimRun run = simulate(made.p, costs);
  EXPECT_THAT(spansOf(run, fetch), ElementsAre(program::TaskSpan{0, 5}, program::TaskSpan{12, 17}));
  EXPECT_THAT(
      spansOf(run, compute),
      ElementsAre(program::TaskSpan{7, 10}, program::TaskSpan{10, 30}, program::TaskSpan{30, 31}));
  made.p.lanes[static_cast<std::size_t>(fetch)].kind = LaneKind::Exchange;  // nobody sleeps
  EXPECT_EQ(simulate(made.p, costs).end, 29);
}

TEST(Simulator, SharesCoresAmongReplicasAndWaitsForAllOfThem) {
  // Each replica computes for 5 and then sums over both; they share one core, but have ports of
  // their own.
  HandMade made;
  made.p.segments.resize(1);
  made.p.collectives.resize(1);
  made.task(made.lane(0, LaneKind::Compute), {});
  made.task(made.lane(0, LaneKind::Exchange),
            {.kind = TaskKind::Reduce},
            {{.lane = 0, .task = 0, .allReplicas = true}});
  SimCosts costs;
  costs.resources = {{.name = "cores", .shared = true}, {.name = "in 0"}};
  costs.segments = {{.busy = 5, .resources = {0}}};
  costs.collectives = {{.busy = 3, .resources = {1}}};
  const SimRun run = simulate(made.p, costs, {.replicas = 3});
  for (int r = 0; r < 3; ++r) {
    EXPECT_THAT(spansOf(run, 0, r), ElementsAre(program::TaskSpan{5 * r, 5 * r + 5}));
    EXPECT_THAT(spansOf(run, 1, r), ElementsAre(program::TaskSpan{15, 18}));
  }
}

TEST(Simulator, FindsAnotherTaskForAResourceThatTheFirstInLineCannotUse) {
  // Task 0 holds A until 10. Task 1 needs A and B and was first in line for B, which task 2 holds
  // until 4; task 3 needs only B and must get it at 4, not at 10.
  HandMade made;
  made.p.segments.resize(4);
  for (std::int32_t d = 0; d < 4; ++d) {
    made.task(made.lane(d, LaneKind::Compute), {.subject = d, .plannedStart = d});
  }
  made.p.lanes[2].tasks[0].plannedStart = -1;
  SimCosts costs;
  costs.resources = {{.name = "A"}, {.name = "B"}};
  costs.segments = {{.busy = 10, .resources = {0}},
                    {.busy = 1, .resources = {1, 0}},
                    {.busy = 4, .resources = {1}},
                    {.busy = 2, .resources = {1}}};
  const SimRun run = simulate(made.p, costs);
  EXPECT_THAT(spansOf(run, 3), ElementsAre(program::TaskSpan{4, 6}));
  EXPECT_THAT(spansOf(run, 1), ElementsAre(program::TaskSpan{10, 11}));
}

TEST(Simulator, DrainsAndPacksAsTheEngineDoes) {
  HandMade made;
  made.p.microBatchesPerRound = 2;
  made.p.keepsPacked = true;
  made.p.segments.resize(2);
  made.p.segments[0].kind = SegmentKind::Pack;
  made.p.drains.resize(1);
  made.p.drains[0].rule = {.every = 2};
  const std::int32_t compute = made.lane(0, LaneKind::Compute);
  made.task(compute, {.subject = 0});
  made.task(compute, {.subject = 1, .microBatch = 0});
  made.task(compute, {.subject = 1, .microBatch = 1});
  const std::int32_t store = made.lane(0, LaneKind::Store);
  made.task(store, {.kind = TaskKind::Drain, .microBatch = 0}, {{.lane = 0, .task = 1}});
  made.task(store, {.kind = TaskKind::Drain, .microBatch = 1}, {{.lane = 0, .task = 2}});
  SimCosts costs;
  costs.segments = {{.busy = 100}, {.busy = 10}};
  costs.drains = {{.busy = 4}};
  using Span = program::TaskSpan;
  const SimRun run = simulate(made.p, costs, {.rounds = 2});
  EXPECT_THAT(spansOf(run, 0),
              ElementsAre(Span{0, 100},
                          Span{100, 110},
                          Span{110, 120},
                          Span{120, 120},
                          Span{120, 130},
                          Span{130, 140}));
  EXPECT_THAT(spansOf(run, 1),
              ElementsAre(Span{110, 110}, Span{120, 124}, Span{130, 130}, Span{140, 144}));
  EXPECT_EQ(simulate(made.p, costs, {.rounds = 2, .hasPacked = true}).end, 44);
}

/// Four devices that have nothing to do with each other, but that device 0 is fed by the host.
Program fedAlone() {
  HandMade made;
  made.p.name = "fed";
  made.p.devices.resize(4);
  made.p.buffers = {{.name = "x", .bytes = 4}};
  made.p.feeds = {{.name = "x", .type = {DType::F32, Shape{1}}, .buffer = program::BufferId(0)}};
  for (std::int32_t d = 0; d < 4; ++d) {
    made.p.segments.push_back({parallel::SegmentInfo{.device = d, .stage = d}, {}});
  }
  made.p.microBatchesPerRound = 3;
  const std::int32_t load = made.lane(0, LaneKind::Load);
  for (std::int32_t d = 0; d < 4; ++d) {
    const std::int32_t lane = made.lane(d, LaneKind::Compute);
    for (std::int32_t m = 0; m < 3; ++m) {
      made.task(lane,
                {.subject = d, .microBatch = m, .plannedStart = m},
                d == 0 ? std::vector<program::Wait>{{.lane = load, .task = m}}
                       : std::vector<program::Wait>{});
    }
  }
  // Each feed follows the kernel before, so that the others are at work meanwhile.
  for (std::int32_t m = 0; m < 3; ++m) {
    made.task(load,
              {.kind = TaskKind::Feed, .microBatch = m, .plannedStart = m},
              m == 0 ? std::vector<program::Wait>{}
                     : std::vector<program::Wait>{{.lane = 1, .task = m - 1}});
  }
  return made.p;
}

/// Table 2G: whom the host's data for device A keeps waiting.
TEST(Simulator, HostDataOfADeviceBlocksTheGroupOfThePattern) {
  const std::map<SyncPattern, std::set<std::int32_t>> table = {
      {SyncPattern::Full, {0, 1, 2, 3}},
      {SyncPattern::SinglePipeline, {0}},
      {SyncPattern::ReplicaAndLadder, {0, 2}}};
  for (const auto& [pattern, group] : table) {
    Program p = fedAlone();
    program::addBarriers(p, pattern);
    // Device 0 is slow: whoever meets it is kept waiting, and nobody else.
    SimCosts costs;
    for (std::int32_t d = 0; d < 4; ++d) {
      costs.segments.push_back({.busy = d == 0 ? 50 : 10});
    }
    costs.feeds = {{.busy = 5}};
    costs.barrier.busy = 1;
    const SimRun run = simulate(p, costs);
    std::map<std::int32_t, std::int64_t> ends;  // by device
    for (const TaskTime& time : run.times) {
      const Lane& lane = p.lanes[static_cast<std::size_t>(time.lane)];
      if (lane.kind == LaneKind::Compute) {
        ends[lane.device] = std::max(ends[lane.device], time.end);
      }
    }
    for (std::int32_t d = 1; d < 4; ++d) {
      EXPECT_EQ(ends[d] > 40, group.contains(d)) << d << " " << static_cast<int>(pattern);
    }
  }
}

/// Random costs and resources against the rules: order of lanes, waits, room in resources, and no
/// resource idle while a task that needs nothing else waits for it.
TEST(Simulator, KeepsItsRulesForRandomCosts) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto number = [&](int low, int high) {
      return std::uniform_int_distribution<std::int32_t>(low, high)(random);
    };
    const auto kinds = schedule::allPipelineKinds();
    const Chain chain = lowerChain(chainModel({.blocks = 4}),
                                   {.deviceOfStage = {0, 1, 2, 3},
                                    .microBatches = number(1, 6),
                                    .kind = kinds[static_cast<std::size_t>(
                                        number(0, static_cast<std::int32_t>(kinds.size()) - 1))]},
                                   program::toyTargets());
    const Program& p = chain.program;
    SimCosts costs;
    for (int i = 0; i < 3; ++i) {
      costs.resources.push_back(
          {.name = "r", .capacity = number(1, 2), .shared = number(0, 1) == 1});
    }
    const auto fill = [&](std::size_t count, std::vector<SimCost>& list) {
      for (std::size_t i = 0; i < count; ++i) {
        SimCost cost{.busy = number(0, 9), .latency = number(0, 2)};
        for (std::int32_t r = 0; r < 3; ++r) {
          if (number(0, 2) == 0) {
            cost.resources.push_back(r);
          }
        }
        list.push_back(cost);
      }
    };
    fill(p.segments.size(), costs.segments);
    fill(p.transfers.size(), costs.transfers);
    fill(p.feeds.size(), costs.feeds);
    fill(p.drains.size(), costs.drains);
    const SimOptions options{.rounds = 2, .replicas = number(1, 3)};
    const SimRun run = simulate(p, costs, options);
    const SimRun again = simulate(p, costs, options);

    const auto listOf = [&](const Task& task) -> const SimCost& {
      const auto i = static_cast<std::size_t>(task.subject);
      return task.kind == TaskKind::Run        ? costs.segments[i]
             : task.kind == TaskKind::Transfer ? costs.transfers[i]
             : task.kind == TaskKind::Feed     ? costs.feeds[i]
                                               : costs.drains[i];
    };
    using Key = std::tuple<std::int32_t, std::int32_t, std::int64_t>;  // replica, lane, place
    std::map<Key, TaskTime> found;
    for (std::size_t i = 0; i < run.times.size(); ++i) {
      const TaskTime& time = run.times[i];
      ASSERT_EQ(time.start, again.times[i].start);
      found[{time.replica,
             time.lane,
             std::int64_t{time.round} *
                     std::ssize(p.lanes[static_cast<std::size_t>(time.lane)].tasks) +
                 time.task}] = time;
    }
    // By resource and its owner: times at which room changes.
    std::map<std::pair<std::int32_t, std::int32_t>, std::map<std::int64_t, std::int32_t>> change;
    const auto ownerOf = [&](std::int32_t resource, std::int32_t replica) {
      return costs.resources[static_cast<std::size_t>(resource)].shared ? -1 : replica;
    };
    for (const TaskTime& time : run.times) {
      const SimCost& cost = listOf(taskOf(p, time));
      for (const std::int32_t resource : cost.resources) {
        auto& changes = change[{resource, ownerOf(resource, time.replica)}];
        ++changes[time.start];
        --changes[time.start + cost.busy];
      }
    }
    const auto usedAt = [&](std::int32_t resource, std::int32_t owner, std::int64_t at) {
      std::int32_t used = 0;
      for (const auto& [time, by] : change[{resource, owner}]) {
        used += time <= at ? by : 0;
      }
      return used;
    };
    for (const auto& [key, changes] : change) {
      std::int32_t used = 0;
      for (const auto& [time, by] : changes) {
        used += by;
        ASSERT_LE(used, costs.resources[static_cast<std::size_t>(key.first)].capacity);
      }
    }
    for (const auto& [key, time] : found) {
      const auto& [replica, lane, place] = key;
      const SimCost& cost = listOf(taskOf(p, time));
      ASSERT_EQ(time.end - time.start, cost.busy + cost.latency);
      std::int64_t possible = place == 0 ? 0 : found.at({replica, lane, place - 1}).end;
      for (const program::Wait& wait : p.waitsOf(taskOf(p, time))) {
        if (time.round >= wait.roundsBack) {
          const std::int64_t other =
              std::int64_t{time.round - wait.roundsBack} *
                  std::ssize(p.lanes[static_cast<std::size_t>(wait.lane)].tasks) +
              wait.task;
          possible = std::max(possible, found.at({replica, wait.lane, other}).end);
        }
      }
      ASSERT_GE(time.start, possible);
      if (time.start > possible) {  // at every moment before, something was full
        for (std::int64_t at = possible; at < time.start; ++at) {
          ASSERT_TRUE(std::ranges::any_of(cost.resources, [&](std::int32_t resource) {
            return usedAt(resource, ownerOf(resource, replica), at) ==
                   costs.resources[static_cast<std::size_t>(resource)].capacity;
          })) << "a task waited for nothing";
        }
      }
    }

    // The same events as the Engine's: explained to the last tick, in the memory of the plan.
    profile::Trace trace(p);
    trace.addStep(run.nanoseconds());
    const profile::Explanation why = profile::explain(trace);
    for (const profile::DeviceIdle& device : why.devices) {
      std::int64_t sum = 0;
      for (const std::int64_t cause : device.causes) {
        sum += cause;
      }
      ASSERT_EQ(sum, device.idle());
    }
    const auto memory = profile::memoryUse(trace, trace.steps[0]);
    for (std::size_t d = 0; d < memory.size(); ++d) {
      const program::DevicePlan& plan = p.devices[d % p.devices.size()];
      ASSERT_EQ(memory[d].planned, static_cast<std::int64_t>(plan.totalBytes()));
      ASSERT_LE(memory[d].peak, memory[d].planned);
    }
  }
}

/// Costs of a bare program whose copies keep ports busy; the same for a lowered one.
SimCosts portCosts(const Program& p,
                   const std::vector<std::int32_t>& deviceOfStage,
                   std::int32_t devices,
                   const SimCost& copy) {
  SimCosts costs;
  for (const program::Segment& segment : p.segments) {
    costs.segments.push_back(
        {.busy = costIn(
             segment.kind,
             {.forward = 3, .backwardInput = segment.stage == 0 ? 0 : 4, .backwardWeight = 2})});
  }
  for (std::int32_t d = 0; d < devices; ++d) {
    costs.resources.push_back({.name = fmt::format("out {}", d)});
    costs.resources.push_back({.name = fmt::format("in {}", d)});
  }
  const auto stages = static_cast<std::int32_t>(deviceOfStage.size());
  for (std::size_t t = 0; t < p.transfers.size(); ++t) {
    const program::Transfer& transfer = p.transfers[t];
    std::int32_t from = 0;
    std::int32_t to = 0;
    if (transfer.from.valid()) {
      from = p.buffer(transfer.from).device;
      to = p.buffer(transfer.to).device;
    } else {
      const auto stage = static_cast<std::int32_t>(t) % stages;
      const std::int32_t next =
          std::clamp(static_cast<std::int32_t>(t) < stages ? stage + 1 : stage - 1, 0, stages - 1);
      from = deviceOfStage[static_cast<std::size_t>(stage)];
      to = deviceOfStage[static_cast<std::size_t>(next)];
    }
    costs.transfers.push_back(
        {.busy = copy.busy, .latency = copy.latency, .resources = {2 * from, 2 * to + 1}});
  }
  return costs;
}

schedule::PipelineProblem problemOf(std::int32_t stages, std::int32_t devices, std::int32_t count) {
  schedule::PipelineProblem problem{.microBatches = count};
  for (std::int32_t s = 0; s < stages; ++s) {
    problem.deviceOfStage.push_back(s % devices);
    problem.costs.push_back({.forward = 3, .backwardInput = s == 0 ? 0 : 4, .backwardWeight = 2});
  }
  return problem;
}

TEST(BareProgram, HasTheMakespanOfTheSchedule) {
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    for (const std::int32_t stages : {1, 2, 5}) {
      for (const std::int32_t devices : {stages, (stages + 1) / 2}) {
        const schedule::PipelineProblem problem = problemOf(stages, devices, 7);
        const schedule::PipelineSchedule plan = schedule::schedulePipeline(kind, problem);
        const Program p = program::bareProgram(plan, problem);
        const SimCosts costs = portCosts(p, problem.deviceOfStage, devices, {});
        if (kind == PipelineKind::Sequential) {
          EXPECT_LE(simulate(p, costs).end, plan.makespan);  // it waits for no other micro-batch
        } else {
          EXPECT_EQ(simulate(p, costs).end, plan.makespan) << schedule::name(kind);
        }
        const SimRun slow =
            simulate(p, portCosts(p, problem.deviceOfStage, devices, {.busy = 2, .latency = 5}));
        EXPECT_GE(slow.end, simulate(p, costs).end);
        const SimRun without = simulate(p, costs, {.keepsTimes = false});
        EXPECT_TRUE(without.times.empty());
        EXPECT_EQ(without.end, simulate(p, costs).end);
      }
    }
  }
  schedule::PipelineProblem concurrent = problemOf(3, 3, 2);
  const schedule::PipelineSchedule plan =
      schedule::schedulePipeline(PipelineKind::GPipe, concurrent);
  concurrent.slotOfStage = {0, 1, 1};
  EXPECT_THAT(messageOf([&] { program::bareProgram(plan, concurrent); }), HasSubstr("concurrent"));
}

/// What large pipelines are simulated from agrees with a program that was lowered from a model,
/// with copies that share ports.
TEST(BareProgram, TakesAsLongAsALoweredPipeline) {
  constexpr std::int32_t kDevices = 64;
  constexpr std::int32_t kMicroBatches = 512;
  const schedule::PipelineProblem problem = problemOf(kDevices, kDevices, kMicroBatches);
  const schedule::PipelineSchedule plan =
      schedule::schedulePipeline(PipelineKind::OneForwardOneBackward, problem);
  const Program bare = program::bareProgram(plan, problem);
  const Chain chain = lowerChain(chainModel({.blocks = kDevices}),
                                 {.deviceOfStage = problem.deviceOfStage,
                                  .microBatches = kMicroBatches,
                                  .kind = PipelineKind::OneForwardOneBackward,
                                  .costs = problem.costs,
                                  .lookahead = kMicroBatches},
                                 program::toyTargets());
  for (const SimCost& copy : {SimCost{}, SimCost{.busy = 1}, SimCost{.busy = 2, .latency = 3}}) {
    const SimRun simple = simulate(
        bare, portCosts(bare, problem.deviceOfStage, kDevices, copy), {.keepsTimes = false});
    const SimRun lowered =
        simulate(chain.program, portCosts(chain.program, problem.deviceOfStage, kDevices, copy));
    EXPECT_EQ(simple.end, makespan(chain.program, lowered)) << copy.busy;
  }
}

TEST(Simulator, ConvertsTicksWithoutChangingTheirOrder) {
  SimRun run;
  run.ticksPerSecond = 1'330'000'000;
  run.times = {{.start = 0, .end = 1},
               {.start = 1, .end = 1'330'000'000},
               {.start = 1'330'000'000'000'000, .end = 1'330'000'000'000'133}};
  const std::vector<TaskTime> times = run.nanoseconds();
  EXPECT_EQ(times[0].end, 0);  // 0.75 ns
  EXPECT_EQ(times[1].start, 0);
  EXPECT_EQ(times[1].end, 1'000'000'000);
  EXPECT_EQ(times[2].start, 1'000'000'000'000'000);
  EXPECT_EQ(times[2].end, 1'000'000'000'000'100);
}

TEST(Simulator, RefusesCostsThatDoNotFit) {
  const Chain chain = lowerChain(chainModel({}), {.deviceOfStage = {0, 1}}, program::toyTargets());
  const auto complaint = [&](const SimCosts& costs, const SimOptions& options = {}) {
    return messageOf<InvalidArgument>([&] { simulate(chain.program, costs, options); });
  };
  EXPECT_THAT(complaint({}, {.rounds = 0}), HasSubstr("rounds"));
  EXPECT_THAT(complaint({}, {.replicas = 0}), HasSubstr("replicas"));
  EXPECT_THAT(complaint({.ticksPerSecond = 0}), HasSubstr("ticks per second"));
  EXPECT_THAT(complaint({.segments = {{}}}), HasSubstr("segments, got 1"));
  EXPECT_THAT(complaint({.feeds = {{}, {}, {}, {}}}), HasSubstr("inputs, got 4"));
  EXPECT_THAT(complaint({.resources = {{.name = "cores", .capacity = 0}}}), HasSubstr("'cores'"));
  EXPECT_THAT(complaint({.barrier = {.busy = -1}}), HasSubstr("negative"));
  EXPECT_THAT(complaint({.wake = -1}), HasSubstr("negative"));
  EXPECT_THAT(complaint({.barrier = {.resources = {0}}}), HasSubstr("resource 0"));
  EXPECT_THAT(complaint({.resources = {{}}, .barrier = {.resources = {0, 0}}}), HasSubstr("twice"));
}

TEST(Simulator, NamesATaskThatCannotStart) {
  HandMade made;
  made.p.segments.resize(1);
  made.task(made.lane(0, LaneKind::Compute), {}, {{.lane = 1, .task = 0}});
  made.task(made.lane(1, LaneKind::Compute), {}, {{.lane = 0, .task = 0}});
  EXPECT_THAT(messageOf<InternalError>([&] { simulate(made.p, {}); }), HasSubstr("deadlock"));
}

}  // namespace
}  // namespace sluice::runtime
