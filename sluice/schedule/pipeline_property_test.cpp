// Random problems of all shapes: every kind of schedule is valid by the independent checker.
#include <random>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/schedule/pipeline.h"
#include "tests/support/pipeline_checker.h"

namespace sluice::schedule {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  std::int32_t small(std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>((*this)(low, high));
  }

 private:
  std::mt19937 random_;
};

/// Stages on random devices, some of them concurrent, with random costs and bytes. `size` scales
/// all counts.
PipelineProblem randomProblem(Draw& draw, std::int64_t size = 1) {
  PipelineProblem problem;
  const std::int32_t devices = draw.small(1, 6 * size);
  const std::int32_t stages = draw.small(1, 9 * size);
  std::vector<bool> inSlot(static_cast<std::size_t>(devices), false);
  std::int32_t slot = 0;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const std::int32_t d = draw.small(0, devices - 1);
    const bool concurrent = stage > 0 && !inSlot[static_cast<std::size_t>(d)] && draw(0, 3) == 0;
    if (stage > 0 && !concurrent) {
      ++slot;
      inSlot.assign(inSlot.size(), false);
    }
    inSlot[static_cast<std::size_t>(d)] = true;
    problem.deviceOfStage.push_back(d);
    problem.slotOfStage.push_back(slot);
    const std::int64_t least = draw(0, 9) == 0 ? 0 : 1;
    problem.costs.push_back({draw(least, 9), draw(least, 9), draw(least, 9)});
    problem.bytes.push_back({draw(0, 5), draw(0, 3)});
  }
  problem.microBatches = draw.small(1, 14 * size);
  problem.training = draw(0, 4) != 0;
  problem.transferCost = draw(0, 1) * draw(0, 4);
  return problem;
}

std::string describe(const PipelineProblem& problem) {
  return fmt::format("devices {} slots {} micro-batches {} training {} transfer {} cap {}",
                     problem.deviceOfStage,
                     problem.slotOfStage,
                     problem.microBatches,
                     problem.training,
                     problem.transferCost,
                     problem.byteCap);
}

TEST(PipelineProperty, TheCheckerFindsFaults) {
  const PipelineProblem problem{.deviceOfStage = vPlacement(2), .microBatches = 3};
  const PipelineSchedule good = schedulePipeline(PipelineKind::ZeroBubble, problem);
  ASSERT_EQ(faultOf(problem, good), "");
  const auto faultAfter = [&](auto change) {
    PipelineSchedule bad = good;
    change(bad);
    return faultOf(problem, bad);
  };
  EXPECT_NE(faultAfter([](auto& s) { s.devices[0].pop_back(); }), "");
  EXPECT_NE(faultAfter([](auto& s) { s.devices[0].push_back(s.devices[0][0]); }), "");
  EXPECT_NE(faultAfter([](auto& s) { std::swap(s.devices[0], s.devices[1]); }), "");
  EXPECT_NE(faultAfter([](auto& s) { std::swap(s.devices[0][0], s.devices[0][1]); }), "");
  EXPECT_NE(faultAfter([](auto& s) { ++s.devices[1].back().end; }), "");
  EXPECT_NE(faultAfter([](auto& s) { --s.devices[1][0].start; }), "");
  EXPECT_NE(faultAfter([](auto& s) { ++s.makespan; }), "");
  EXPECT_NE(faultAfter([](auto& s) { s.bound = s.makespan + 1; }), "");
  EXPECT_NE(faultAfter([](auto& s) { ++s.bubble[0]; }), "");
  EXPECT_NE(faultAfter([](auto& s) { ++s.peakBytes[1]; }), "");
  EXPECT_NE(faultAfter([](auto& s) { ++s.stashDepth[2]; }), "");
  EXPECT_NE(faultAfter([](auto& s) { ++s.weightGradDepth[0]; }), "");
  PipelineProblem capped = problem;
  capped.byteCap.assign(2, good.peakBytes[0] - 1);
  EXPECT_NE(faultOf(capped, good), "");
}

TEST(PipelineProperty, EveryKindIsValidForRandomProblems) {
  for (unsigned seed = 0; seed < 250; ++seed) {
    Draw draw(seed);
    const PipelineProblem problem = randomProblem(draw);
    for (const PipelineKind kind : allPipelineKinds()) {
      ASSERT_EQ(faultOf(problem, schedulePipeline(kind, problem)), "")
          << "seed " << seed << ", " << name(kind) << ", " << describe(problem);
    }
  }
}

TEST(PipelineProperty, EveryKindIsValidForLargerProblems) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    Draw draw(seed);
    const PipelineProblem problem = randomProblem(draw, 4);
    for (const PipelineKind kind : allPipelineKinds()) {
      ASSERT_EQ(faultOf(problem, schedulePipeline(kind, problem)), "")
          << "seed " << seed << ", " << name(kind) << ", " << describe(problem);
    }
  }
}

/// What a device needs for one micro-batch alone with weight parts run at once.
std::vector<std::int64_t> leastBytes(const PipelineProblem& problem) {
  std::vector<std::int64_t> least;
  std::vector<std::int64_t> held;
  for (std::size_t stage = 0; stage < problem.deviceOfStage.size(); ++stage) {
    const auto d = static_cast<std::size_t>(problem.deviceOfStage[stage]);
    least.resize(std::max(least.size(), d + 1), 0);
    held.resize(least.size(), 0);
    const StageBytes& bytes = problem.bytes[stage];
    held[d] = (problem.training ? held[d] : 0) + bytes.activations;
    least[d] = std::max(least[d], held[d] + (problem.training ? bytes.weightGradInputs : 0));
  }
  return least;
}

TEST(PipelineProperty, SearchedKindsKeepEveryByteCapThatHoldsAMicroBatch) {
  for (unsigned seed = 0; seed < 250; ++seed) {
    Draw draw(seed);
    PipelineProblem problem = randomProblem(draw);
    problem.byteCap = leastBytes(problem);
    for (std::int64_t& cap : problem.byteCap) {
      cap += draw(0, 2) * draw(0, 10);
    }
    for (const PipelineKind kind :
         {PipelineKind::Chunked, PipelineKind::ZeroBubbleH1, PipelineKind::ZeroBubble}) {
      ASSERT_EQ(faultOf(problem, schedulePipeline(kind, problem)), "")
          << "seed " << seed << ", " << name(kind) << ", " << describe(problem);
    }
  }
}

TEST(PipelineProperty, ACapBelowOneMicroBatchIsRefused) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Draw draw(seed);
    PipelineProblem problem = randomProblem(draw);
    problem.byteCap = leastBytes(problem);
    for (std::int64_t& cap : problem.byteCap) {
      if (cap > 0) {
        --cap;
        EXPECT_THROW(schedulePipeline(PipelineKind::ZeroBubble, problem), InvalidArgument)
            << "seed " << seed << ", " << describe(problem);
        ++cap;
      }
    }
  }
}

TEST(PipelineProperty, ZeroBubbleIsNeverLongerThanOneForwardOneBackward) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    Draw draw(seed);
    const PipelineProblem problem = randomProblem(draw);
    const auto makespan = [&](PipelineKind kind) {
      return schedulePipeline(kind, problem).makespan;
    };
    const std::int64_t plain = makespan(PipelineKind::OneForwardOneBackward);
    for (const PipelineKind kind :
         {PipelineKind::Chunked, PipelineKind::ZeroBubbleH1, PipelineKind::ZeroBubble}) {
      ASSERT_LE(makespan(kind), plain) << "seed " << seed << ", " << name(kind);
    }
  }
}

TEST(PipelineProperty, ZeroBubbleH1KeepsTheMemoryOfOneForwardOneBackward) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Draw draw(seed);
    const std::int32_t stages = draw.small(1, 7);
    PipelineProblem problem{.deviceOfStage = roundRobinPlacement(stages, 1),
                            .microBatches = draw.small(1, 20)};
    for (std::int32_t s = 0; s < stages; ++s) {
      problem.costs.push_back({draw(1, 9), draw(1, 9), draw(1, 9)});
    }
    const PipelineSchedule schedule = schedulePipeline(PipelineKind::ZeroBubbleH1, problem);
    for (std::int32_t s = 0; s < stages; ++s) {
      ASSERT_LE(schedule.stashDepth[static_cast<std::size_t>(s)], stages) << "seed " << seed;
      ASSERT_LE(schedule.activationDepth[static_cast<std::size_t>(s)], stages - s)
          << "seed " << seed;
    }
  }
}

TEST(PipelineProperty, AGenerousByteCapDoesNotMakeAScheduleHoldMore) {
  PipelineProblem problem{.deviceOfStage = vPlacement(4), .microBatches = 32};
  const auto peak = [&] { return schedulePipeline(PipelineKind::ZeroBubble, problem).peakBytes; };
  const std::vector<std::int64_t> without = peak();
  problem.byteCap.assign(4, 1000);
  EXPECT_EQ(peak(), without);
}

TEST(PipelineProperty, SchedulesAreTheSameEveryTime) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Draw draw(seed);
    const PipelineProblem problem = randomProblem(draw);
    for (const PipelineKind kind : allPipelineKinds()) {
      ASSERT_EQ(schedulePipeline(kind, problem).devices, schedulePipeline(kind, problem).devices)
          << "seed " << seed << ", " << name(kind);
    }
  }
}

}  // namespace
}  // namespace sluice::schedule
