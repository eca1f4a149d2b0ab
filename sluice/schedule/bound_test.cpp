// bound <= optimum <= every schedule, where the optimum comes from branch and bound.
#include <algorithm>
#include <random>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/schedule/pipeline.h"
#include "tests/support/pipeline_checker.h"

namespace sluice::schedule {
namespace {

constexpr std::int64_t kMostNodes = 5'000'000;

struct Gap {
  std::int64_t instances = 0;
  std::int64_t optimal = 0;    ///< instances in which the best schedule is an optimum
  std::int64_t unsettled = 0;  ///< instances too large for the search
  double worst = 1;            ///< largest ratio of the best schedule to the optimum
};

/// The best makespan of the kinds that run this problem's pieces; checks each of them.
std::int64_t bestMakespan(const PipelineProblem& problem, bool split, std::int64_t& worst) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  worst = 0;
  for (const PipelineKind kind : allPipelineKinds()) {
    if (splitsBackward(kind) != split) {
      continue;
    }
    try {
      const PipelineSchedule schedule = schedulePipeline(kind, problem);
      EXPECT_EQ(faultOf(problem, schedule), "") << name(kind);
      best = std::min(best, schedule.makespan);
      worst = std::max(worst, schedule.makespan);
    } catch (const InvalidArgument&) {
      EXPECT_FALSE(problem.byteCap.empty()) << name(kind);
    }
  }
  return best;
}

void compare(const PipelineProblem& problem, bool split, Gap& gap) {
  SCOPED_TRACE(fmt::format("devices {} micro-batches {} split {} cap {}",
                           problem.deviceOfStage,
                           problem.microBatches,
                           split,
                           problem.byteCap));
  std::int64_t worst = 0;
  const std::int64_t best = bestMakespan(problem, split, worst);
  const std::int64_t bound = lowerBound(problem, split);
  const std::int64_t optimum =
      best == bound ? best : optimalMakespan(problem, split, best, kMostNodes);
  ++gap.instances;
  if (optimum < 0) {
    ++gap.unsettled;
    EXPECT_LE(bound, best);
    return;
  }
  EXPECT_LE(bound, optimum);
  gap.optimal += best == optimum ? 1 : 0;
  gap.worst = std::max(gap.worst, static_cast<double>(best) / static_cast<double>(optimum));
}

/// All stacks and V placements of up to three devices and four micro-batches; `mostOfV` keeps the
/// search for the optimum of V placements short.
template <class Prepare>
Gap compareAll(bool split, std::int32_t mostOfV, Prepare prepare) {
  Gap gap;
  for (std::int32_t devices = 1; devices <= 3; ++devices) {
    for (std::int32_t m = 1; m <= 4; ++m) {
      for (const bool v : {false, true}) {
        if (v && devices * m > mostOfV) {
          continue;
        }
        PipelineProblem problem{
            .deviceOfStage = v ? vPlacement(devices) : roundRobinPlacement(devices, 1),
            .microBatches = m};
        prepare(problem);
        compare(problem, split, gap);
      }
    }
  }
  fmt::print("{} instances, {} optimal, {} unsettled, worst ratio {:.3f}\n",
             gap.instances,
             gap.optimal,
             gap.unsettled,
             gap.worst);
  return gap;
}

void drawCosts(PipelineProblem& problem, std::mt19937& random) {
  std::uniform_int_distribution<std::int64_t> draw(1, 6);
  for (std::size_t i = 0; i < problem.deviceOfStage.size(); ++i) {
    problem.costs.push_back({draw(random), draw(random), draw(random)});
  }
}

TEST(Bound, IsTheLargestOfPathAndDevices) {
  const PipelineProblem one{.deviceOfStage = {0, 1, 2, 3}, .microBatches = 8};
  EXPECT_EQ(lowerBound(one, true), 27);
  EXPECT_EQ(lowerBound(one, false), 33);
  const PipelineProblem v{.deviceOfStage = vPlacement(4), .microBatches = 8};
  EXPECT_EQ(lowerBound(v, true), 51);  // halves of 25.5
  PipelineProblem path{.deviceOfStage = {0, 1}, .microBatches = 1, .transferCost = 5};
  EXPECT_EQ(lowerBound(path, false), 1 + 5 + 1 + 2 + 5 + 2);
  EXPECT_EQ(lowerBound(path, true), 1 + 5 + 1 + 1 + 5 + 2);
  path.training = false;
  EXPECT_EQ(lowerBound(path, true), 1 + 5 + 1);
}

TEST(Bound, TheSearchForTheOptimumNeedsNoHint) {
  const PipelineProblem two{.deviceOfStage = {0, 1}, .microBatches = 2};
  // Device 1 starts at 1, has 2 * 3 to do, and its last backward pass is followed by another.
  EXPECT_EQ(optimalMakespan(two, false, 1000, kMostNodes), 9);
  EXPECT_EQ(optimalMakespan(two, true, 1000, kMostNodes), 7);
  // Without room for a second micro-batch on device 0 they run one after the other.
  PipelineProblem capped = two;
  capped.byteCap = {1, 2};
  EXPECT_EQ(optimalMakespan(capped, false, 1000, kMostNodes), 12);
  // F F B B of the second micro-batch follow the first's last input part; its weight part fills in.
  EXPECT_EQ(optimalMakespan(capped, true, 1000, kMostNodes), 9);
  std::mt19937 random(7);
  for (int trial = 0; trial < 10; ++trial) {
    PipelineProblem problem{.deviceOfStage = {0, 1, 0}, .microBatches = 2};
    drawCosts(problem, random);
    const std::int64_t some = schedulePipeline(PipelineKind::ZeroBubble, problem).makespan;
    EXPECT_EQ(optimalMakespan(problem, true, some, kMostNodes),
              optimalMakespan(problem, true, 10 * some, kMostNodes));
  }
}

TEST(Bound, HoldsForUnitCosts) {
  for (const bool split : {false, true}) {
    const Gap gap = compareAll(split, 12, [](PipelineProblem&) {});
    EXPECT_EQ(gap.optimal, gap.instances);
  }
}

TEST(Bound, HoldsForUnevenCosts) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    for (const bool split : {false, true}) {
      const Gap gap = compareAll(split, 9, [&](PipelineProblem& problem) {
        drawCosts(problem, random);
        problem.transferCost = seed % 2;
      });
      EXPECT_EQ(gap.unsettled, 0);
      EXPECT_LE(gap.worst, 1.1);
    }
  }
}

TEST(Bound, HoldsUnderAByteCap) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    for (const bool split : {false, true}) {
      const Gap gap = compareAll(split, 9, [&](PipelineProblem& problem) {
        drawCosts(problem, random);
        problem.bytes.assign(problem.deviceOfStage.size(),
                             {.activations = 2, .weightGradInputs = seed % 3});
        const auto devices = static_cast<std::size_t>(std::ranges::max(problem.deviceOfStage)) + 1;
        const auto stages = static_cast<std::int64_t>(problem.deviceOfStage.size() / devices);
        problem.byteCap.assign(devices, 2 * stages * (1 + seed % 2) + 2);
      });
      EXPECT_EQ(gap.unsettled, 0);
      EXPECT_LE(gap.worst, 1.25);
    }
  }
}

}  // namespace
}  // namespace sluice::schedule
