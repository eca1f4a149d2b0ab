// Why devices are idle: traces with known answers, delays that are planted in virtual time, and
// random traces whose causes must add up.
#include "sluice/profile/explain.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/program/virtual_clock.h"
#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

using program::LaneKind;
using program::TaskKind;
using runtime::TaskTime;
using ::testing::ElementsAre;

constexpr auto kIndex = [](Cause cause) { return static_cast<std::size_t>(cause); };

/// Causes in the order of the enumeration: ramp, imbalance, transfer, remote, input, host, cores.
std::array<std::int64_t, kCauses> causes(std::int64_t ramp,
                                         std::int64_t imbalance,
                                         std::int64_t transfer,
                                         std::int64_t remote,
                                         std::int64_t input,
                                         std::int64_t host,
                                         std::int64_t cores) {
  return {ramp, imbalance, transfer, remote, input, host, cores};
}

void expectSums(const Trace& trace, const Explanation& explanation) {
  std::vector<std::int64_t> idle(trace.numDevices(), 0);
  for (const IdleStretch& stretch : explanation.stretches) {
    std::int64_t parts = 0;
    for (const IdlePart& part : stretch.parts) {
      EXPECT_GT(part.time, 0);
      parts += part.time;
    }
    EXPECT_EQ(parts, stretch.end - stretch.begin);
    idle[stretch.device] += parts;
  }
  for (std::size_t d = 0; d < idle.size(); ++d) {
    const DeviceIdle& device = explanation.devices[d];
    std::int64_t sum = 0;
    for (const std::int64_t time : device.causes) {
      sum += time;
    }
    EXPECT_EQ(sum, device.idle());
    EXPECT_EQ(idle[d], device.idle());
    EXPECT_EQ(device.span, explanation.measured);
  }
  std::int64_t path = 0;
  for (const PathPart& part : explanation.criticalPath) {
    path += part.time;
  }
  EXPECT_EQ(path, explanation.measured);
}

TEST(Explain, FollowsTheWaitsOfATask) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes(1000));
  const Explanation found = explain(trace);
  expectSums(trace, found);
  EXPECT_EQ(found.measured, 1350);
  // Device 0 waits 100 for its input, and at the end (900 to 1350) for: the copy (50), a core for
  // forward 1 (50), forward 1 (200) and a core for the drain (50; a host's lane), the drain (100).
  // Equal stages (300 each) would make it wait at the end, too: 300 of the second forward 1 and 100
  // of the update.
  EXPECT_EQ(found.devices[0].causes, causes(200, 0, 50, 0, 100, 150, 50)) << "device 0";
  // Device 1 waits until 600 for the input (100), forward 0 (400), the copy (50), a core (50); from
  // 800 to 1000 for forward 0 (100), the copy (50), a core (50); from 1300 to 1350 for the drain.
  EXPECT_EQ(found.devices[1].idle(), 850);
  EXPECT_EQ(found.devices[1].causes[kIndex(Cause::Transfer)], 100);
  EXPECT_EQ(found.devices[1].causes[kIndex(Cause::Input)], 100);
  EXPECT_EQ(found.devices[1].causes[kIndex(Cause::Host)], 50);
  EXPECT_EQ(found.devices[1].causes[kIndex(Cause::Cores)], 100);
  EXPECT_EQ(found.devices[1].causes[kIndex(Cause::Ramp)] +
                found.devices[1].causes[kIndex(Cause::Imbalance)],
            500);
  // Equal stages: forward 1 waits 300 at first, and never again.
  EXPECT_EQ(found.devices[1].causes[kIndex(Cause::Ramp)], 300);
}

/// Devices that do not wait for each other, the second with an update: more for the second one and
/// less for the first would take longer.
TEST(Explain, CallsNothingEvenThatIsSlower) {
  program::Program program = twoStageProgram();
  for (program::Lane& lane : program.lanes) {
    for (program::Task& task : lane.tasks) {
      task.numWaits = 0;
    }
  }
  Trace trace(program);
  trace.addStep({{{1, 0, 0, 0, 200},
                  {1, 1, 0, 200, 400},
                  {3, 0, 0, 0, 100},
                  {3, 1, 0, 100, 200},
                  {3, 2, 0, 200, 400}}});
  const Explanation found = explain(trace);
  EXPECT_EQ(found.ideal, 400);
  EXPECT_EQ(found.even, 400);
}

TEST(Explain, NamesTheTaskThatIsWaitedFor) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes(0));
  const Explanation found = explain(trace);
  const IdleStretch& second = found.stretches[3];  // of device 1, from 800 to 1000
  EXPECT_EQ(second.begin, 800);
  EXPECT_EQ(second.nextLane, 3);
  EXPECT_EQ(second.nextTask, 1);
  ASSERT_EQ(second.parts.size(), 3U);
  EXPECT_EQ(second.parts[0].cause, Cause::Cores);
  EXPECT_EQ(second.parts[1].cause, Cause::Transfer);
  EXPECT_EQ(second.parts[1].lane, 2);
  EXPECT_EQ(second.parts[2].cause, Cause::Imbalance);
  EXPECT_EQ(second.parts[2].lane, 1);
  EXPECT_EQ(second.parts[2].time, 100);
}

TEST(Explain, MeasuresStagesSubjectsAndIdeals) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes(0));
  const Explanation found = explain(trace);
  ASSERT_EQ(found.stages.size(), 2U);
  EXPECT_EQ(found.stages[0].forward, 400);
  EXPECT_EQ(found.stages[1].time(), 200);
  EXPECT_EQ(found.stages[1].device, 1);
  EXPECT_EQ(trace.subjects[static_cast<std::size_t>(found.subjects[0].subject)].name, "forward 0");
  EXPECT_EQ(found.subjects[0].total, 800);
  EXPECT_EQ(found.subjects[0].count, 2);
  EXPECT_EQ(found.ideal, 400 + 400 + 200 + 100);  // forward 0 twice, forward 1, update
  EXPECT_EQ(found.even, 300 + 300 + 300 + 100);
  EXPECT_EQ(trace.subjects[static_cast<std::size_t>(found.criticalPath[0].subject)].name,
            "forward 0");
  EXPECT_EQ(found.criticalPath[0].time, 800);
}

TEST(Explain, OfNothingIsEmpty) {
  const Explanation found = explain(Trace(twoStageProgram()));
  EXPECT_EQ(found.measured, 0);
  EXPECT_TRUE(found.stretches.empty());
  EXPECT_TRUE(found.criticalPath.empty());
}

// --- planted delays ------------------------------------------------------------

constexpr std::int64_t kKernel = 1'000'000;
constexpr std::int64_t kDelay = 2'000'000;
constexpr std::int32_t kStages = 4;
constexpr std::int32_t kMicroBatches = 8;

struct Costs {
  std::int64_t slowStage = -1;
  std::int64_t transfer = 10'000;
  std::int64_t fetch = 10'000;
  std::int64_t feed = 10'000;
  std::int64_t drain = 10'000;
};

/// Forward passes through four stages; each fetches what it needs for each micro-batch.
program::Program pipeline() {
  using namespace program;  // NOLINT(google-build-using-namespace): all of it is one program
  Program p;
  p.name = "planted";
  p.microBatchesPerRound = kMicroBatches;
  p.devices.resize(kStages);
  const TensorType type{DType::F32, Shape{4}};
  p.feeds = {{.name = "x", .type = type, .buffer = BufferId(0)}};
  p.drains = {{.name = "y", .type = type, .buffer = BufferId(0)}};
  p.buffers = {{.name = "b", .bytes = 16}, {.name = "r", .device = kRemote, .bytes = 16}};
  const auto lane = [&](std::int32_t device, LaneKind kind, TaskKind task, std::int32_t subject) {
    Lane& added = p.lanes.emplace_back();
    added.device = device;
    added.kind = kind;
    for (std::int32_t m = 0; m < kMicroBatches; ++m) {
      added.tasks.push_back({.kind = task, .subject = subject, .microBatch = m});
    }
    return static_cast<std::int32_t>(p.lanes.size()) - 1;
  };
  const auto waitFor = [&](std::int32_t waiter, std::vector<std::int32_t> lanes) {
    for (std::int32_t m = 0; m < kMicroBatches; ++m) {
      Task& task = p.lanes[static_cast<std::size_t>(waiter)].tasks[static_cast<std::size_t>(m)];
      task.firstWait = static_cast<std::int32_t>(p.waits.size());
      task.numWaits = static_cast<std::int32_t>(lanes.size());
      for (const std::int32_t other : lanes) {
        p.waits.push_back({.lane = other, .task = m});
      }
    }
  };
  std::int32_t before = lane(0, LaneKind::Load, TaskKind::Feed, 0);
  for (std::int32_t s = 0; s < kStages; ++s) {
    p.segments.push_back({parallel::SegmentInfo{.device = s, .stage = s}, {}});
    const auto transfers = static_cast<std::int32_t>(p.transfers.size());
    p.transfers.push_back({.name = "w", .from = BufferId(1), .to = BufferId(0), .bytes = 16});
    p.transfers.push_back({.name = "h", .from = BufferId(0), .to = BufferId(0), .bytes = 16});
    const std::int32_t fetch = lane(s, LaneKind::Fetch, TaskKind::Transfer, transfers);
    const std::int32_t compute = lane(s, LaneKind::Compute, TaskKind::Run, s);
    waitFor(compute, {before, fetch});
    before = compute;
    if (s + 1 < kStages) {
      const std::int32_t exchange =
          lane(s + 1, LaneKind::Exchange, TaskKind::Transfer, transfers + 1);
      waitFor(exchange, {compute});
      before = exchange;
    }
  }
  waitFor(lane(kStages - 1, LaneKind::Store, TaskKind::Drain, 0), {before});
  return p;
}

Trace planted(const Costs& costs) {
  const program::Program p = pipeline();
  program::ClockCosts clock;
  for (std::int32_t s = 0; s < kStages; ++s) {
    clock.segments.push_back(s == costs.slowStage ? kKernel + kDelay : kKernel);
    clock.transfers.push_back(costs.fetch);
    clock.transfers.push_back(costs.transfer);
  }
  clock.feeds = {costs.feed};
  clock.drains = {costs.drain};
  constexpr std::int32_t kRounds = 2;
  const program::ClockRun run = program::runOnClock(p, clock, kRounds);
  std::vector<TaskTime> times;
  for (std::size_t l = 0; l < run.lanes.size(); ++l) {
    for (std::size_t i = 0; i < run.lanes[l].size(); ++i) {
      times.push_back({.lane = static_cast<std::int32_t>(l),
                       .task = static_cast<std::int32_t>(i % kMicroBatches),
                       .round = static_cast<std::int32_t>(i / kMicroBatches),
                       .start = run.lanes[l][i].start,
                       .end = run.lanes[l][i].end});
    }
  }
  Trace trace(p);
  trace.addStep(times);
  return trace;
}

/// The cause of most idle time of all devices.
Cause mainCause(const Explanation& found) {
  std::array<std::int64_t, kCauses> sums{};
  for (const DeviceIdle& device : found.devices) {
    for (std::size_t c = 0; c < kCauses; ++c) {
      sums[c] += device.causes[c];
    }
  }
  return static_cast<Cause>(std::ranges::max_element(sums) - sums.begin());
}

TEST(PlantedDelay, WithoutOneTheScheduleIsTheCause) {
  const Trace trace = planted({});
  const Explanation found = explain(trace);
  expectSums(trace, found);
  EXPECT_EQ(mainCause(found), Cause::Ramp);
  for (const DeviceIdle& device : found.devices) {
    EXPECT_EQ(device.causes[kIndex(Cause::Imbalance)], 0);
    EXPECT_EQ(device.causes[kIndex(Cause::Cores)], 0);
    EXPECT_EQ(device.causes[kIndex(Cause::Ramp)], 3 * kKernel);  // of four stages three wait
  }
}

TEST(PlantedDelay, OfAStageIsNamed) {
  for (std::int32_t slow = 0; slow < kStages; ++slow) {
    const Trace trace = planted({.slowStage = slow});
    const Explanation found = explain(trace);
    expectSums(trace, found);
    EXPECT_EQ(mainCause(found), Cause::Imbalance);
    std::map<std::int32_t, std::int64_t> blamed;
    for (const IdleStretch& stretch : found.stretches) {
      for (const IdlePart& part : stretch.parts) {
        if (part.cause == Cause::Imbalance) {
          blamed[trace
                     .subjectOf(trace.lanes[static_cast<std::size_t>(part.lane)]
                                    .tasks[static_cast<std::size_t>(part.task)])
                     .stage] += part.time;
        }
      }
    }
    const auto most = std::ranges::max_element(blamed, {}, [](const auto& b) { return b.second; });
    EXPECT_EQ(most->first, slow);
    const auto longest = std::ranges::max_element(found.stages, {}, &StageTime::time);
    EXPECT_EQ(longest->stage, slow);
    EXPECT_EQ(longest->time() - found.stages[(slow + 1) % kStages].time(), kDelay);
  }
}

TEST(PlantedDelay, OfAStageIsNoImbalanceWhereOneDeviceWorksAtATime) {
  Trace trace = planted({.slowStage = 1});
  // Every stage waits until the one before it has done all; equal stages would take as long.
  const auto lane = [&](std::int32_t device) {
    return std::ranges::find_if(trace.lanes, [&](const TracedLane& l) {
      return l.device == device && l.kind == LaneKind::Compute;
    });
  };
  std::int64_t at = 0;
  for (std::int32_t d = 0; d < kStages; ++d) {
    for (TracedTask& task : lane(d)->tasks) {
      task.waits.clear();
      if (d > 0) {
        task.waits.push_back({.lane = static_cast<std::int32_t>(lane(d - 1) - trace.lanes.begin()),
                              .task = kMicroBatches - 1});
      }
    }
  }
  for (TracedTask& task : lane(0)->tasks) {
    task.waits.push_back(
        {.lane = static_cast<std::int32_t>(lane(kStages - 1) - trace.lanes.begin()),
         .task = kMicroBatches - 1,
         .roundsBack = 1});
  }
  Trace::Step step;
  for (std::int32_t round = 0; round < 2; ++round) {
    for (std::int32_t d = 0; d < kStages; ++d) {
      for (std::int32_t m = 0; m < kMicroBatches; ++m) {
        const std::int64_t end = at + (d == 1 ? kKernel + kDelay : kKernel);
        step.push_back(
            {static_cast<std::int32_t>(lane(d) - trace.lanes.begin()), m, round, at, end});
        at = end;
      }
    }
  }
  trace.steps = {step};
  const Explanation found = explain(trace);
  expectSums(trace, found);
  for (const DeviceIdle& device : found.devices) {
    EXPECT_EQ(device.causes[kIndex(Cause::Imbalance)], 0);
    EXPECT_EQ(device.causes[kIndex(Cause::Ramp)], device.idle());
  }
}

TEST(PlantedDelay, OfATransferALoadOrAFeedIsNamed) {
  const std::vector<std::pair<Costs, Cause>> cases = {
      {{.transfer = kDelay}, Cause::Transfer},
      {{.fetch = kDelay}, Cause::RemoteMemory},
      {{.feed = kDelay}, Cause::Input},
  };
  for (const auto& [costs, cause] : cases) {
    const Trace trace = planted(costs);
    const Explanation found = explain(trace);
    expectSums(trace, found);
    EXPECT_EQ(mainCause(found), cause) << name(cause);
    EXPECT_EQ(found.ideal, found.even);  // it is not the kernels
    EXPECT_LT(found.ideal, found.measured);
  }
}

TEST(PlantedDelay, OfATaskThatWasReadyIsThatOfTheCores) {
  Trace trace = planted({});
  for (TaskTime& time : trace.steps[0]) {
    // From its fifth task on, device 3 begins later than it could.
    if (trace.laneOf(time).device == 3 && trace.laneOf(time).kind == LaneKind::Compute &&
        (time.round > 0 || time.task >= 5)) {
      time.start += kDelay;
      time.end += kDelay;
    }
    if (trace.laneOf(time).kind == LaneKind::Store) {
      time.start += kDelay;
      time.end += kDelay;
    }
  }
  std::ranges::stable_sort(trace.steps[0], {}, &TaskTime::start);
  const Explanation found = explain(trace);
  expectSums(trace, found);
  EXPECT_EQ(found.devices[3].causes[kIndex(Cause::Cores)], kDelay);
}

// --- random traces -------------------------------------------------------------

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int32_t below(std::int32_t end) {
    return std::uniform_int_distribution<std::int32_t>(0, end - 1)(engine_);
  }

 private:
  std::mt19937 engine_;
};

/// Lanes of all kinds, waits that lead back in one order of all tasks, and times that either keep
/// the waits, or do not.
Trace randomTrace(Random& random) {
  Trace trace;
  trace.name = "random";
  trace.microBatchesPerRound = 1 + random.below(4);
  trace.devices.resize(static_cast<std::size_t>(1 + random.below(3)));
  const auto devices = static_cast<std::int32_t>(trace.devices.size());
  for (std::int32_t s = 0; s < 5; ++s) {
    trace.subjects.push_back(
        {.name = "s", .category = s % 2 == 0 ? "forward" : "backward", .stage = s, .touches = {}});
  }
  trace.lanes.resize(static_cast<std::size_t>(devices + random.below(5)));
  for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
    const bool compute = l < trace.devices.size();
    trace.lanes[l].device = compute ? static_cast<std::int32_t>(l) : random.below(devices);
    trace.lanes[l].kind =
        compute ? LaneKind::Compute
                : static_cast<LaneKind>(
                      std::array{0, 2, 3, 4, 5, 6, 7}[static_cast<std::size_t>(random.below(7))]);
  }
  std::vector<std::pair<std::int32_t, std::int32_t>> order;  // lane and task
  const std::int32_t tasks = 1 + random.below(20);
  for (std::int32_t i = 0; i < tasks; ++i) {
    const std::int32_t l = random.below(static_cast<std::int32_t>(trace.lanes.size()));
    TracedTask task{.subject = random.below(5),
                    .microBatch = random.below(trace.microBatchesPerRound),
                    .waits = {},
                    .slots = {}};
    for (std::int32_t w = random.below(3); w > 0 && !order.empty(); --w) {
      const auto [lane, other] =
          order[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(order.size())))];
      task.waits.push_back({.lane = lane,
                            .task = other,
                            .roundsBack = random.below(2),
                            .allReplicas = random.below(4) == 0});
    }
    auto& lane = trace.lanes[static_cast<std::size_t>(l)].tasks;
    order.emplace_back(l, static_cast<std::int32_t>(lane.size()));
    lane.push_back(std::move(task));
  }
  const std::int32_t replicas = 1 + random.below(2);
  const std::int32_t steps = 1 + random.below(3);
  for (std::int32_t s = 0; s < steps; ++s) {
    std::vector<TaskTime> times;
    std::vector<std::int64_t> free(trace.lanes.size() * static_cast<std::size_t>(replicas), 0);
    for (std::int32_t round = 0; round < 1 + s; ++round) {
      for (const auto& [lane, task] : order) {
        for (std::int32_t r = 0; r < replicas; ++r) {
          auto& at = free[static_cast<std::size_t>(r) * trace.lanes.size() +
                          static_cast<std::size_t>(lane)];
          const std::int64_t start = at + random.below(4) * random.below(50);
          at = start + random.below(3) * random.below(100);
          times.push_back({lane, task, round, start, at, r});
        }
      }
    }
    trace.addStep(times);
  }
  return trace;
}

TEST(Explain, AddsUpOnRandomTraces) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const Trace trace = randomTrace(random);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    expectSums(trace, explain(trace));
    if (HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace sluice::profile
