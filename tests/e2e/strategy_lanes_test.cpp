// The order in which compiled programs run the passes of their stages, and the activations that
// they keep for it, against the tables that the guides print.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/program/virtual_clock.h"
#include "sluice/sluice.h"
#include "tests/support/lane_text.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using Rows = std::vector<std::string>;
using SlotSet = std::set<std::int32_t>;

/// As many equal layers as stages, in blocks b0, b1, ... A layer keeps the tanh for its backward
/// pass, which reads it twice, and passes its square on, which nobody on its device reads again.
struct Tabled : nn::Module {
  explicit Tabled(std::int64_t stages) {
    for (std::int64_t i = 0; i < stages; ++i) {
      layers.push_back(std::make_unique<nn::Linear>(*this, fmt::format("layer{}", i), 4, 4));
    }
  }

  nn::Tensor forward(nn::Tensor x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const nn::Block block(fmt::format("b{}", i));
      const nn::Tensor h = nn::tanh((*layers[i])(x));
      x = h * h;
    }
    const nn::Block block(fmt::format("b{}", layers.size() - 1));
    return nn::mean(x);
  }

  std::vector<std::unique_ptr<nn::Linear>> layers;
};

program::Program tabled(std::int64_t stages, std::int64_t microBatches, const char* schedule) {
  Tabled net(stages);
  std::vector<Stage> blocks;
  for (std::int64_t i = 0; i < stages; ++i) {
    blocks.emplace_back(fmt::format("b{}", i));
  }
  Options options;
  options.training.gradientAccumulation(microBatches);
  options.setExecutionStrategy(PipelinedExecution(blocks).schedule(schedule));
  auto model = trainingModel(net, options, optim::SGD(0.1));
  model.compile(std::vector{HostTensor(DType::F32, Shape{microBatches, 4})});
  return model.program();
}

Rows passesOfDevices(const program::Program& p) {
  Rows rows;
  for (std::size_t d = 0; d < p.devices.size(); ++d) {
    rows.push_back(testing::passesOf(p, static_cast<std::int32_t>(d)));
  }
  return rows;
}

/// How long the loop takes if every pass takes 1 and nothing else takes any time.
std::int64_t stepsOf(const program::Program& p) {
  program::ClockCosts costs;
  for (const program::Segment& segment : p.segments) {
    costs.segments.push_back(segment.oncePerRound() ? 0 : 1);
  }
  const program::TaskSpan loop = program::runOnClock(p, costs).loops.at(0);
  return loop.end - loop.start;
}

TEST(StrategyLanes, GroupedRunsTheTablesOfTwoAndThreeStages) {
  EXPECT_EQ(passesOfDevices(tabled(2, 4, "grouped")),
            Rows({"F0(0) F0(1) F0(2) F0(3) B0(0) B0(1) B0(2) B0(3)",
                  "F1(0) F1(1) B1(0) F1(2) B1(1) F1(3) B1(2) B1(3)"}));
  EXPECT_EQ(passesOfDevices(tabled(3, 6, "grouped")),
            Rows({"F0(0) F0(1) F0(2) F0(3) F0(4) F0(5) B0(0) B0(1) B0(2) B0(3) B0(4) B0(5)",
                  "F1(0) F1(1) F1(2) F1(3) B1(0) F1(4) B1(1) F1(5) B1(2) B1(3) B1(4) B1(5)",
                  "F2(0) F2(1) B2(0) F2(2) B2(1) F2(3) B2(2) F2(4) B2(3) F2(5) B2(4) B2(5)"}));
}

TEST(StrategyLanes, InterleavedRunsTheTablesOfTwoAndThreeStages) {
  const program::Program two = tabled(2, 4, "interleaved");
  EXPECT_EQ(passesOfDevices(two),
            Rows({"F0(0) F0(1) B0(0) F0(2) B0(1) F0(3) B0(2) B0(3)",
                  "F1(0) B1(0) F1(1) B1(1) F1(2) B1(2) F1(3) B1(3)"}));
  EXPECT_EQ(stepsOf(two), 10);
  const program::Program three = tabled(3, 6, "interleaved");
  EXPECT_EQ(passesOfDevices(three),
            Rows({"F0(0) F0(1) F0(2) B0(0) F0(3) B0(1) F0(4) B0(2) F0(5) B0(3) B0(4) B0(5)",
                  "F1(0) F1(1) B1(0) F1(2) B1(1) F1(3) B1(2) F1(4) B1(3) F1(5) B1(4) B1(5)",
                  "F2(0) B2(0) F2(1) B2(1) F2(2) B2(2) F2(3) B2(3) F2(4) B2(4) F2(5) B2(5)"}));
  EXPECT_EQ(stepsOf(three), 16);
}

TEST(StrategyLanes, SequentialRunsOneMicroBatchAtATime) {
  const program::Program p = tabled(2, 2, "sequential");
  EXPECT_EQ(passesOfDevices(p), Rows({"F0(0) B0(0) F0(1) B0(1)", "F1(0) B1(0) F1(1) B1(1)"}));
  EXPECT_EQ(stepsOf(p), 8);
}

TEST(StrategyLanes, PopartRunsTheTableOfThreeStages) {
  // Its cycles name stages 0 to 4: 3 and 4 are the backward passes of 1 and 0, 2 is both of 2.
  EXPECT_EQ(passesOfDevices(tabled(3, 5, "popart")),
            Rows({"F0(0) F0(1) F0(2) F0(3) F0(4) B0(0) B0(1) B0(2) B0(3) B0(4)",
                  "F1(0) F1(1) F1(2) B1(0) F1(3) B1(1) F1(4) B1(2) B1(3) B1(4)",
                  "F2(0) B2(0) F2(1) B2(1) F2(2) B2(2) F2(3) B2(3) F2(4) B2(4)"}));
}

/// By device: the depths of the rings that its forward pass fills for its backward pass alone.
std::vector<SlotSet> stashDepths(const program::Program& p) {
  std::vector<bool> filled(p.buffers.size());
  std::vector<bool> read(p.buffers.size());
  for (const program::Segment& segment : p.segments) {
    for (const device::KernelCall& call : segment.calls) {
      for (const std::int32_t b : call.outputs) {
        filled[static_cast<std::size_t>(b)] =
            filled[static_cast<std::size_t>(b)] || segment.kind == program::SegmentKind::Forward;
      }
      for (const std::int32_t b : call.inputs) {
        read[static_cast<std::size_t>(b)] =
            read[static_cast<std::size_t>(b)] || segment.kind == program::SegmentKind::Backward;
      }
    }
  }
  for (const program::Transfer& transfer : p.transfers) {
    read[transfer.from.index()] = false;
  }
  std::vector<SlotSet> depths(p.devices.size());
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    if (filled[b] && read[b] && p.buffers[b].region == program::Region::Transient) {
      depths[static_cast<std::size_t>(p.buffers[b].device)].insert(p.buffers[b].slots);
    }
  }
  return depths;
}

TEST(StrategyLanes, AStashIsAsDeepAsTheCyclesUntilItIsRead) {
  // 2 (S - 1 - s) + 1 for stage s of S; the last stage reads in the same cycle.
  EXPECT_THAT(stashDepths(tabled(4, 8, "popart")),
              ElementsAre(SlotSet{7}, SlotSet{5}, SlotSet{3}, SlotSet{1}));
  EXPECT_THAT(stashDepths(tabled(4, 8, "grouped")),
              ElementsAre(SlotSet{8}, SlotSet{6}, SlotSet{4}, SlotSet{2}));
  EXPECT_THAT(stashDepths(tabled(4, 8, "interleaved")),
              ElementsAre(SlotSet{4}, SlotSet{3}, SlotSet{2}, SlotSet{1}));
}

/// x times 2, 3, 4 and 5, each in a block of its own.
struct Factors : nn::Module {
  nn::Tensor forward(nn::Tensor x) {
    for (int i = 0; i < 4; ++i) {
      const nn::Block block(fmt::format("m{}", i));
      x = x * static_cast<double>(i + 2);
    }
    return x;
  }
};

TEST(StrategyLanes, ShardsMultiplyInTurnOneDeviceAtATime) {
  Factors net;
  Options options;
  options.deviceIterations(3).setExecutionStrategy(ShardedExecution{"m0", "m1", "m2", "m3"});
  auto model = inferenceModel(net, options);
  const HostTensor x = HostTensor::of<float>({3, 2}, {1, -2, 0.5, 7, 0, 1024});
  EXPECT_THAT(model(x).toDoubles(), ElementsAre(120, -240, 60, 840, 0, 122880));
  const program::Program& p = model.program();
  EXPECT_EQ(
      passesOfDevices(p),
      Rows({"F0(0) F0(1) F0(2)", "F1(0) F1(1) F1(2)", "F2(0) F2(1) F2(2)", "F3(0) F3(1) F3(2)"}));
  EXPECT_EQ(p.transfers.size(), 3U);
  // Twelve passes, each of which begins when the one before has ended.
  program::ClockCosts costs;
  costs.segments.assign(p.segments.size(), 1);
  const program::ClockRun run = program::runOnClock(p, costs);
  std::vector<std::int64_t> starts;
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    for (std::size_t t = 0; t < p.lanes[l].tasks.size(); ++t) {
      if (p.lanes[l].tasks[t].kind == program::TaskKind::Run) {
        starts.push_back(run.lanes[l][t].start);
      }
    }
  }
  std::ranges::sort(starts);
  EXPECT_THAT(starts, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

}  // namespace
}  // namespace sluice
