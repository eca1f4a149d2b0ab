// The Program on a virtual clock against the schedule it was lowered from: lanes and waits must
// cost no time that the schedule does not have, and use exactly the slots that were planned.
#include "sluice/program/virtual_clock.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/program/verify.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_kernels.h"

namespace sluice::program {
namespace {

using schedule::PipelineKind;
using schedule::StageCost;
using sluice::testing::Chain;
using sluice::testing::chainModel;
using sluice::testing::ChainOptions;
using sluice::testing::ChainRun;
using sluice::testing::lowerChain;

/// The schedule's cost of every segment of the loop; pack and update take no time.
ClockCosts costsOf(const Chain& chain, const std::vector<StageCost>& costs) {
  ClockCosts result;
  for (const Segment& segment : chain.program.segments) {
    const StageCost& cost = costs[static_cast<std::size_t>(segment.stage)];
    switch (segment.kind) {
      case SegmentKind::Forward:
        result.segments.push_back(cost.forward);
        break;
      case SegmentKind::Backward:
        result.segments.push_back(cost.backwardInput + cost.backwardWeight);
        break;
      case SegmentKind::BackwardInput:
        result.segments.push_back(cost.backwardInput);
        break;
      case SegmentKind::BackwardWeight:
        result.segments.push_back(cost.backwardWeight);
        break;
      case SegmentKind::Pack:
      case SegmentKind::Update:
        result.segments.push_back(0);
    }
  }
  return result;
}

/// The first stage has no input gradient to compute, so its input part is nothing.
std::vector<StageCost> unitCosts(std::size_t stages) {
  std::vector<StageCost> costs(stages);
  costs[0].backwardInput = 0;
  return costs;
}

std::vector<StageCost> unevenCosts(std::size_t stages) {
  std::vector<StageCost> costs;
  for (std::size_t s = 0; s < stages; ++s) {
    const auto i = static_cast<std::int64_t>(s);
    costs.push_back({2 + i * 3 % 5, s == 0 ? 0 : 1 + i * 7 % 4, 2 + i * 5 % 3});
  }
  return costs;
}

struct Case {
  std::string name;
  ChainOptions model;
  ChainRun run;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    for (std::int32_t stages = 1; stages <= 5; ++stages) {
      for (const std::int32_t microBatches : {1, 3, 4, 9}) {
        for (const bool training : {true, false}) {
          for (const bool uneven : {false, true}) {
            for (const bool folded : {false, true}) {
              Case c{.model = {.blocks = stages, .training = training, .skip = stages > 2}};
              c.run = {.microBatches = microBatches, .kind = kind};
              c.run.lookahead = uneven ? 0 : 1;
              // Folded: half as many devices, stage by stage in turn.
              const std::int32_t devices = folded ? (stages + 1) / 2 : stages;
              for (std::int32_t s = 0; s < stages; ++s) {
                c.run.deviceOfStage.push_back(s % devices);
              }
              const auto count = static_cast<std::size_t>(stages);
              c.run.costs = uneven ? unevenCosts(count) : unitCosts(count);
              c.name = fmt::format("{} {} stages, {} devices, {} micro-batches, {}, {} costs",
                                   schedule::name(kind),
                                   stages,
                                   devices,
                                   microBatches,
                                   training ? "training" : "inference",
                                   uneven ? "uneven" : "unit");
              all.push_back(std::move(c));
            }
          }
        }
      }
    }
  }
  return all;
}

/// Written by a forward segment and read by a backward one of the same device, and by nobody else.
std::vector<std::size_t> stashes(const Program& p) {
  std::vector<int> touched(p.buffers.size(), 0);
  const auto mark = [&](std::int32_t buffer, int bit) {
    touched[static_cast<std::size_t>(buffer)] |= bit;
  };
  for (const Segment& segment : p.segments) {
    const int bit = segment.kind == SegmentKind::Forward ? 1 : segment.oncePerRound() ? 4 : 2;
    for (const device::KernelCall& call : segment.calls) {
      for (const std::int32_t b : call.inputs) {
        mark(b, bit);
      }
      for (const std::int32_t b : call.outputs) {
        mark(b, bit);
      }
    }
  }
  for (const Transfer& transfer : p.transfers) {
    mark(transfer.from.value, 4);
    mark(transfer.to.value, 4);
  }
  for (const std::vector<Port>* streams : {&p.feeds, &p.drains}) {
    for (const Port& stream : *streams) {
      mark(stream.buffer.value, 4);
    }
  }
  std::vector<std::size_t> found;
  for (std::size_t b = 0; b < touched.size(); ++b) {
    if (touched[b] == 3 && p.buffers[b].region == Region::Transient && p.buffers[b].slots > 1) {
      found.push_back(b);
    }
  }
  return found;
}

TEST(VirtualClock, HasTheMakespanOfTheScheduleAndTheSlotsOfThePlan) {
  std::size_t compared = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Chain chain = lowerChain(chainModel(c.model), c.run, toyTargets());
    const ClockCosts costs = costsOf(chain, c.run.costs);
    const ClockRun one = runOnClock(chain.program, costs);
    ASSERT_EQ(one.loops[0].end - one.loops[0].start, chain.schedule.makespan);
    for (const std::size_t b : stashes(chain.program)) {
      EXPECT_EQ(one.slotsInUse[b], chain.program.buffers[b].slots) << chain.program.buffers[b].name;
      ++compared;
    }
    if (c.run.lookahead == 0) {
      // No slot to spare: every ring is as deep as this run needs it.
      for (std::size_t b = 0; b < chain.program.buffers.size(); ++b) {
        const Buffer& buffer = chain.program.buffers[b];
        EXPECT_EQ(one.slotsInUse[b], buffer.slots > 1 ? buffer.slots : 0) << buffer.name;
        ++compared;
      }
    }
    const ClockRun three = runOnClock(chain.program, costs, 3);
    for (std::size_t b = 0; b < chain.program.buffers.size(); ++b) {
      EXPECT_LE(three.slotsInUse[b], chain.program.buffers[b].slots)
          << chain.program.buffers[b].name;
    }
    // Rounds may overlap and never get in each other's way by more than their own length.
    EXPECT_LE(three.end, 3 * one.end);
  }
  EXPECT_GT(compared, 1000U);
}

TEST(VirtualClock, StartsATaskWhenLaneAndWaitsAllowIt) {
  // Two devices, one kernel each of 3 and 5; the copy between them takes 2.
  const Chain chain = lowerChain(
      chainModel({.training = false}), {.deviceOfStage = {0, 1}, .microBatches = 3}, toyTargets());
  const Program& p = chain.program;
  ClockCosts costs;
  for (const Segment& segment : p.segments) {
    costs.segments.push_back(segment.kind != SegmentKind::Forward ? 0 : segment.stage == 0 ? 3 : 5);
  }
  costs.transfers.assign(p.transfers.size(), 2);
  ASSERT_EQ(p.transfers.size(), 1U);
  const ClockRun run = runOnClock(p, costs);
  const auto spans = [&](std::int32_t device, LaneKind kind) {
    for (std::size_t l = 0; l < p.lanes.size(); ++l) {
      if (p.lanes[l].device == device && p.lanes[l].kind == kind) {
        return run.lanes[l];
      }
    }
    return std::vector<TaskSpan>();
  };
  using ::testing::ElementsAre;
  // The first task of a compute lane packs the weight.
  EXPECT_THAT(spans(0, LaneKind::Compute),
              ElementsAre(TaskSpan{0, 0}, TaskSpan{0, 3}, TaskSpan{3, 6}, TaskSpan{6, 9}));
  EXPECT_THAT(spans(1, LaneKind::Exchange),
              ElementsAre(TaskSpan{3, 5}, TaskSpan{6, 8}, TaskSpan{10, 12}));
  EXPECT_THAT(spans(1, LaneKind::Compute),
              ElementsAre(TaskSpan{0, 0}, TaskSpan{5, 10}, TaskSpan{10, 15}, TaskSpan{15, 20}));
  EXPECT_EQ(run.end, 20);
  EXPECT_EQ(run.loops[0], (TaskSpan{0, 20}));
}

TEST(VirtualClock, NamesATaskThatCannotStart) {
  Chain chain = lowerChain(chainModel({}), {.deviceOfStage = {0, 1}}, toyTargets());
  Program& p = chain.program;
  Task& first = p.lanes[1].tasks[1];
  first.firstWait = static_cast<std::int32_t>(p.waits.size());
  first.numWaits = 1;
  p.waits.push_back({.lane = 1, .task = 2});
  try {
    runOnClock(p, {.segments = std::vector<std::int64_t>(p.segments.size(), 1)});
    FAIL() << "a task waited for one behind it";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("deadlock"));
    EXPECT_THAT(error.message(), ::testing::HasSubstr("run forward 0 of micro-batch 0"));
  }
}

}  // namespace
}  // namespace sluice::program
