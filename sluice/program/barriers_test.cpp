#include "sluice/program/barriers.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/program/verify.h"
#include "sluice/program/virtual_clock.h"
#include "tests/support/message_of.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_kernels.h"

namespace sluice::program {
namespace {

using schedule::PipelineKind;
using schedule::SyncPattern;
using sluice::testing::chainModel;
using sluice::testing::lowerChain;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr SyncPattern kPatterns[] = {
    SyncPattern::Full, SyncPattern::SinglePipeline, SyncPattern::ReplicaAndLadder};

/// Four stages on four devices, four micro-batches.
Program pipeline(PipelineKind kind = PipelineKind::OneForwardOneBackward) {
  return lowerChain(chainModel({.blocks = 4, .skip = true}),
                    {.deviceOfStage = {0, 1, 2, 3}, .microBatches = 4, .kind = kind},
                    toyTargets())
      .program;
}

Program withBarriers(SyncPattern pattern, PipelineKind kind = PipelineKind::OneForwardOneBackward) {
  Program program = pipeline(kind);
  addBarriers(program, pattern);
  return program;
}

ClockRun clockOf(const Program& program) {
  // Devices of different speed: who has to wait for others does.
  std::vector<std::int64_t> costs;
  for (const Segment& segment : program.segments) {
    costs.push_back(3 + 2 * segment.device);
  }
  return runOnClock(program, {.segments = costs}, 3);
}

TEST(Barriers, AreMetByAllTheirDevicesAtTheSameTimeBeforeTheExchange) {
  for (const SyncPattern pattern : kPatterns) {
    for (const PipelineKind kind : schedule::allPipelineKinds()) {
      const Program p = withBarriers(pattern, kind);
      verify(p);
      const ClockRun clock = clockOf(p);
      std::map<std::pair<std::int32_t, std::size_t>, std::int64_t> met;  // barrier, round
      std::size_t count = 0;
      for (std::size_t l = 0; l < p.lanes.size(); ++l) {
        for (std::size_t t = 0; t < clock.lanes[l].size(); ++t) {
          const std::size_t perRound = p.lanes[l].tasks.size();
          const Task& task = p.lanes[l].tasks[t % perRound];
          if (task.kind == TaskKind::Barrier) {
            const auto [at, first] =
                met.emplace(std::pair(task.subject, t / perRound), clock.lanes[l][t].start);
            EXPECT_EQ(at->second, clock.lanes[l][t].start);
            ++count;
          }
        }
      }
      std::size_t members = 0;
      for (const std::vector<std::int32_t>& group : p.barriers->groups) {
        members += group.size();
      }
      EXPECT_EQ(count, 3 * members);
      for (std::size_t l = 0; l < p.lanes.size(); ++l) {
        for (std::size_t t = 0; t < clock.lanes[l].size(); ++t) {
          const std::size_t perRound = p.lanes[l].tasks.size();
          for (const Wait& wait : p.waitsOf(p.lanes[l].tasks[t % perRound])) {
            const Task& gate = p.lanes[static_cast<std::size_t>(wait.lane)]
                                   .tasks[static_cast<std::size_t>(wait.task)];
            if (gate.kind == TaskKind::Barrier && wait.roundsBack == 0) {
              EXPECT_LE(met.at({gate.subject, t / perRound}), clock.lanes[l][t].start);
            }
          }
        }
      }
    }
  }
}

TEST(Barriers, CostTimeTheMoreDevicesMeet) {
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    const std::int64_t free = clockOf(pipeline(kind)).end;
    const std::int64_t single = clockOf(withBarriers(SyncPattern::SinglePipeline, kind)).end;
    const std::int64_t full = clockOf(withBarriers(SyncPattern::Full, kind)).end;
    EXPECT_LE(free, single);
    EXPECT_LE(single, full);
  }
  EXPECT_LT(clockOf(pipeline()).end, clockOf(withBarriers(SyncPattern::Full)).end);
}

TEST(Barriers, JoinTheDevicesOfThePattern) {
  const auto groupOfFeed = [](SyncPattern pattern, std::int32_t device) {
    const Program p = withBarriers(pattern);
    for (const Lane& lane : p.lanes) {
      if (lane.kind == LaneKind::Load && lane.device == device) {
        return groupBefore(p, lane, lane.tasks.at(0), pattern);
      }
    }
    return std::vector<std::int32_t>{};
  };
  using Group = std::vector<std::int32_t>;
  EXPECT_EQ(groupOfFeed(SyncPattern::Full, 0), (Group{0, 1, 2, 3}));
  EXPECT_EQ(groupOfFeed(SyncPattern::SinglePipeline, 0), (Group{0}));
  EXPECT_EQ(groupOfFeed(SyncPattern::ReplicaAndLadder, 0), (Group{0, 2}));
  EXPECT_EQ(groupOfFeed(SyncPattern::ReplicaAndLadder, 3), (Group{1, 3}));
}

/// The first barrier of two members or more, in its first lane.
std::pair<std::size_t, std::size_t> firstMeeting(const Program& p) {
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    for (std::size_t t = 0; t < p.lanes[l].tasks.size(); ++t) {
      if (p.lanes[l].tasks[t].kind == TaskKind::Barrier && p.lanes[l].tasks[t].numWaits > 0) {
        return {l, t};
      }
    }
  }
  return {};
}

TEST(Barriers, AreProven) {
  const auto complaint = [](auto change) {
    Program p = withBarriers(SyncPattern::Full);
    change(p);
    return messageOf<InternalError>([&] { verify(p); });
  };
  EXPECT_THAT(complaint([](Program& p) {
                const auto [lane, task] = firstMeeting(p);
                --p.lanes[lane].tasks[task].numWaits;
              }),
              AllOf(HasSubstr("barrier"), HasSubstr("does not wait for lane compute")));
  EXPECT_THAT(complaint([](Program& p) {
                Lane& load = *std::ranges::find(p.lanes, LaneKind::Load, &Lane::kind);
                load.tasks[0].numWaits = 0;
              }),
              AllOf(HasSubstr("feed"), HasSubstr("no barrier of devices 0, 1, 2, 3")));
  EXPECT_THAT(complaint([](Program& p) {
                p.barriers->groups.push_back({0, 1});
              }),
              HasSubstr("0 of 2 lanes come to it"));
  EXPECT_THAT(complaint([](Program& p) {
                const auto [lane, task] = firstMeeting(p);
                p.lanes[lane].tasks[task].subject = 1000;
              }),
              HasSubstr("barrier 1000 of"));
}

/// If every barrier looked at all lanes, this would take minutes.
TEST(Barriers, OfNobodyAreProvenAmongManyLanes) {
  constexpr std::size_t kMany = 300'000;
  Program p = withBarriers(SyncPattern::Full);
  Lane idle = *std::ranges::find(p.lanes, LaneKind::Load, &Lane::kind);
  idle.tasks.clear();
  p.lanes.resize(p.lanes.size() + kMany, idle);
  p.barriers->groups.resize(p.barriers->groups.size() + kMany);
  EXPECT_NO_THROW(verify(p));
}

TEST(Barriers, AreInTheTextOfAProgram) {
  EXPECT_THAT(print(withBarriers(SyncPattern::ReplicaAndLadder)),
              AllOf(HasSubstr("barrier 0 of devices 0"), HasSubstr("devices 0, 2\n")));
  EXPECT_NE(hash(withBarriers(SyncPattern::Full)), hash(pipeline()));
}

}  // namespace
}  // namespace sluice::program
