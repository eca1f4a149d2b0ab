#include "sluice/program/overlap.h"

#include <gtest/gtest.h>

#include "sluice/program/verify.h"
#include "sluice/program/virtual_clock.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_kernels.h"

namespace sluice::program {
namespace {

using schedule::PipelineKind;

constexpr std::int32_t kClockRounds = 3;

struct Counts {
  int duringKernels = 0;  ///< tasks that begin while a kernel of their device runs
  int ahead = 0;          ///< feeds that begin before the kernels in front of their reader are over
  int acrossRounds = 0;   ///< tasks that begin or end while kernels of another round run
};

/// The first task of a lane that waits for one of another lane.
std::size_t readerOf(const Program& p, std::size_t lane, std::size_t other, std::size_t task) {
  for (std::size_t t = 0; t < p.lanes[lane].tasks.size(); ++t) {
    for (const Wait& wait : p.waitsOf(p.lanes[lane].tasks[t])) {
      if (static_cast<std::size_t>(wait.lane) == other &&
          static_cast<std::size_t>(wait.task) >= task && wait.roundsBack == 0) {
        return t;
      }
    }
  }
  return 0;
}

/// Of the feeds, or drains, of a pipeline over three devices.
Counts count(PipelineKind kind, OverlapPlan plan, LaneKind lane) {
  Program p =
      sluice::testing::lowerChain(sluice::testing::chainModel({.blocks = 3, .skip = true}),
                                  {.deviceOfStage = {0, 1, 2}, .microBatches = 4, .kind = kind},
                                  toyTargets())
          .program;
  limitOverlap(p, plan);
  verify(p);
  std::vector<std::int64_t> costs;
  for (const Segment& segment : p.segments) {
    costs.push_back(3 + 2 * segment.device);
  }
  const ClockRun clock = runOnClock(p, {.segments = costs}, kClockRounds);
  Counts counts;
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    if (p.lanes[l].kind != lane) {
      continue;
    }
    for (std::size_t c = 0; c < p.lanes.size(); ++c) {
      if (p.lanes[c].kind != LaneKind::Compute || p.lanes[c].device != p.lanes[l].device) {
        continue;
      }
      const std::size_t perRound = p.lanes[l].tasks.size();
      const std::size_t kernels = p.lanes[c].tasks.size();
      for (std::size_t t = 0; t < clock.lanes[l].size(); ++t) {
        const std::size_t reader =
            t / perRound * kernels + (lane == LaneKind::Load ? readerOf(p, c, l, t % perRound) : 0);
        for (std::size_t k = 0; k < clock.lanes[c].size(); ++k) {
          const TaskSpan& kernel = clock.lanes[c][k];
          const std::int64_t at = clock.lanes[l][t].start;
          counts.duringKernels += kernel.start < at && at < kernel.end ? 1 : 0;
          counts.ahead += k < reader && at < kernel.end ? 1 : 0;
          const bool earlierRound = k / kernels < t / perRound;
          const bool laterRound = k / kernels > t / perRound;
          counts.acrossRounds +=
              (earlierRound && at < kernel.end) || (laterRound && kernel.end <= at) ? 1 : 0;
        }
      }
    }
  }
  return counts;
}

TEST(Overlap, KeepsInputsApartFromKernelsWhereAsked) {
  Counts free;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    const auto with = [&](OverlapMode mode) {
      return count(kind, {.inputs = mode}, LaneKind::Load);
    };
    EXPECT_EQ(with(OverlapMode::NoOverlap).ahead, 0);
    EXPECT_EQ(with(OverlapMode::OverlapAccumulationLoop).acrossRounds, 0);
    free.ahead += with(OverlapMode::OverlapAccumulationLoop).ahead;
    free.acrossRounds += with(OverlapMode::OverlapDeviceIterationLoop).acrossRounds;
  }
  EXPECT_GT(free.ahead, 0);
  EXPECT_GT(free.acrossRounds, 0);
}

TEST(Overlap, KeepsOutputsApartFromKernelsWhereAsked) {
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    const auto with = [&](OverlapMode mode) {
      return count(kind, {.outputs = mode}, LaneKind::Store);
    };
    EXPECT_EQ(with(OverlapMode::NoOverlap).duringKernels, 0);
    EXPECT_EQ(with(OverlapMode::NoOverlap).acrossRounds, 0);
    EXPECT_EQ(with(OverlapMode::OverlapAccumulationLoop).acrossRounds, 0);
  }
}

}  // namespace
}  // namespace sluice::program
