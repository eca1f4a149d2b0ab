#include "sluice/schedule/pipeline.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"

namespace sluice::schedule {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PipelineProblem stack(std::int32_t devices, std::int32_t microBatches) {
  return {.deviceOfStage = roundRobinPlacement(devices, 1), .microBatches = microBatches};
}

std::int64_t makespanOf(PipelineKind kind, const PipelineProblem& problem) {
  return schedulePipeline(kind, problem).makespan;
}

/// The pieces of one device as "F0 F1 B0 ...", with the stage behind a dot where it has several.
std::string orderOf(const PipelineSchedule& schedule, std::size_t device, bool stages = false) {
  std::string text;
  for (const Work& work : schedule.devices[device]) {
    text += text.empty() ? "" : " ";
    text += work.kind == WorkKind::Forward          ? 'F'
            : work.kind == WorkKind::BackwardWeight ? 'W'
                                                    : 'B';
    text += std::to_string(work.microBatch);
    text += stages ? "." + std::to_string(work.stage) : "";
  }
  return text;
}

TEST(Pipeline, GPipeHasTheTextbookMakespanAndMemory) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::GPipe, stack(4, 8));
  EXPECT_EQ(s.kind, PipelineKind::GPipe);
  EXPECT_EQ(s.makespan, 33);
  EXPECT_EQ(s.bound, 33);
  EXPECT_THAT(s.busy, ElementsAre(24, 24, 24, 24));
  EXPECT_THAT(s.bubble, ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(s.peakBytes, ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(s.stashDepth, ElementsAre(8, 8, 8, 8));
  EXPECT_DOUBLE_EQ(s.rampShare, 9.0 / 33.0);
}

TEST(Pipeline, OneForwardOneBackwardHoldsAsManyMicroBatchesAsStagesFollow) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::OneForwardOneBackward, stack(4, 8));
  EXPECT_EQ(s.makespan, 33);
  EXPECT_THAT(s.peakBytes, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(s.stashDepth, ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(orderOf(s, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(orderOf(s, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(Pipeline, GroupedHoldsTwiceAsManyMicroBatches) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::Grouped, stack(4, 8));
  EXPECT_EQ(s.makespan, 33);
  EXPECT_THAT(s.peakBytes, ElementsAre(8, 6, 4, 2));
}

TEST(Pipeline, TwoChunksHalveTheBubble) {
  // Each chunk has half the cost and half the activations of a stage, so everything counts halves.
  const PipelineSchedule s = schedulePipeline(
      PipelineKind::Chunked, {.deviceOfStage = roundRobinPlacement(4, 2), .microBatches = 8});
  EXPECT_EQ(s.makespan, 57);
  EXPECT_EQ(s.bound, 57);
  EXPECT_EQ(s.peakBytes[0], 11);
  EXPECT_EQ(orderOf(s, 0, true).substr(0, 54),
            "F0.0 F1.0 F2.0 F3.0 F0.4 F1.4 F2.4 F3.4 F4.0 F5.0 F6.0");
}

TEST(Pipeline, ZeroBubbleH1FillsTheGapsOfOneForwardOneBackward) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::ZeroBubbleH1, stack(4, 8));
  EXPECT_EQ(s.makespan, 27);
  EXPECT_EQ(s.bound, 27);
  EXPECT_THAT(s.peakBytes, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(s.stashDepth, ElementsAre(4, 4, 4, 4));
}

TEST(Pipeline, ZeroBubbleOnAVHasOnlyTheRampLeft) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::ZeroBubble,
                                              {.deviceOfStage = vPlacement(4), .microBatches = 8});
  EXPECT_EQ(s.makespan, 51);  // halves of 25.5
  EXPECT_EQ(s.bound, 51);
  EXPECT_EQ(s.peakBytes[0], 8);
  EXPECT_THAT(s.bubble, ElementsAre(3, 3, 3, 3));
}

TEST(Pipeline, ZeroBubbleReachesTheBoundOfManyEvenPipelines) {
  for (std::int32_t devices = 1; devices <= 8; ++devices) {
    for (const std::int32_t m : {2 * devices, 3 * devices + 1, 40}) {
      const PipelineSchedule s = schedulePipeline(
          PipelineKind::ZeroBubble, {.deviceOfStage = vPlacement(devices), .microBatches = m});
      EXPECT_EQ(s.makespan, s.bound) << devices << " devices, " << m << " micro-batches";
      EXPECT_LE(s.peakBytes[0], 2 * devices);
    }
  }
}

TEST(Pipeline, AByteCapIsKeptAtTheCostOfTime) {
  PipelineProblem problem{.deviceOfStage = vPlacement(4), .microBatches = 8};
  std::int64_t before = makespanOf(PipelineKind::ZeroBubble, problem);
  for (const std::int64_t cap : {8, 6, 4, 2}) {
    problem.byteCap.assign(4, cap);
    const PipelineSchedule s = schedulePipeline(PipelineKind::ZeroBubble, problem);
    EXPECT_LE(*std::ranges::max_element(s.peakBytes), cap);
    EXPECT_GE(s.makespan, before);
    before = s.makespan;
  }
}

TEST(Pipeline, ZeroBubbleStaysNearTheBoundWithUnevenCostsAndTheMemoryOf1F1B) {
  std::mt19937 random(11);
  const auto draw = [&] { return 80 + static_cast<std::int64_t>(random() % 40); };
  for (const std::int32_t devices : {2, 4, 8, 16}) {
    PipelineProblem problem{.deviceOfStage = vPlacement(devices), .microBatches = 4 * devices};
    for (std::size_t i = 0; i < problem.deviceOfStage.size(); ++i) {
      problem.costs.push_back({draw(), draw(), draw()});
    }
    problem.byteCap.assign(static_cast<std::size_t>(devices), 2 * devices);
    const PipelineSchedule s = schedulePipeline(PipelineKind::ZeroBubble, problem);
    EXPECT_LE(static_cast<double>(s.makespan), 1.05 * static_cast<double>(s.bound)) << devices;
  }
}

TEST(Pipeline, SequentialRunsOneMicroBatchAtATime) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::Sequential, stack(3, 4));
  EXPECT_EQ(s.makespan, 4 * 9);
  EXPECT_THAT(s.stashDepth, ElementsAre(1, 1, 1));
  EXPECT_EQ(orderOf(s, 1), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Pipeline, PopartRunsBothPassesOfTheLastStageTogether) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::Popart, stack(3, 5));
  EXPECT_EQ(orderOf(s, 2), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
  EXPECT_EQ(orderOf(s, 1), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(orderOf(s, 0), "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4");
}

TEST(Pipeline, InferenceFillsThePipelineInEveryKindButSequential) {
  for (const PipelineKind kind : allPipelineKinds()) {
    PipelineProblem problem = stack(4, 6);
    problem.training = false;
    const PipelineSchedule s = schedulePipeline(kind, problem);
    EXPECT_EQ(s.makespan, kind == PipelineKind::Sequential ? 24 : 9) << name(kind);
    EXPECT_EQ(s.bound, 9);
    EXPECT_THAT(s.stashDepth, ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(s.weightGradDepth, ElementsAre(0, 0, 0, 0));
  }
}

TEST(Pipeline, OneDeviceHasNoBubble) {
  for (const PipelineKind kind : allPipelineKinds()) {
    const PipelineSchedule s = schedulePipeline(kind, {.deviceOfStage = {0, 0}, .microBatches = 3});
    EXPECT_EQ(s.makespan, 18) << name(kind);
    EXPECT_EQ(s.rampShare, 0);
  }
}

TEST(Pipeline, TransfersDelayOnlyOtherDevices) {
  PipelineProblem problem{.deviceOfStage = {0, 0, 1}, .microBatches = 1, .transferCost = 10};
  const PipelineSchedule s = schedulePipeline(PipelineKind::GPipe, problem);
  EXPECT_EQ(s.devices[0][1].start, 1);
  EXPECT_EQ(s.devices[1][0].start, 12);
  EXPECT_EQ(s.makespan, 2 + 10 + 3 + 10 + 4);
}

TEST(Pipeline, ConcurrentStagesOverlap) {
  PipelineProblem problem{.deviceOfStage = {0, 1, 2, 0},
                          .slotOfStage = {0, 1, 1, 2},
                          .costs = {{1, 1, 1}, {5, 1, 1}, {2, 1, 1}, {1, 1, 1}}};
  const PipelineSchedule s = schedulePipeline(PipelineKind::GPipe, problem);
  EXPECT_EQ(s.devices[1][0].start, 1);
  EXPECT_EQ(s.devices[2][0].start, 1);
  EXPECT_EQ(s.devices[0][1].start, 6);  // waits for the slower of both
  EXPECT_EQ(s.makespan, 13);
}

TEST(Pipeline, DevicesWithoutStagesAreIdleAndNotCounted) {
  const PipelineSchedule s =
      schedulePipeline(PipelineKind::GPipe, {.deviceOfStage = {0, 2}, .microBatches = 2});
  ASSERT_EQ(s.devices.size(), 3U);
  EXPECT_TRUE(s.devices[1].empty());
  EXPECT_THAT(s.bubble, ElementsAre(3, 0, 3));
  EXPECT_DOUBLE_EQ(s.rampShare, 3.0 / 9.0);
}

TEST(Pipeline, HeldBytesFollowThePieces) {
  PipelineProblem problem = stack(1, 2);
  problem.bytes = {{.activations = 10, .weightGradInputs = 4}};
  EXPECT_THAT(schedulePipeline(PipelineKind::GPipe, problem).peakBytes, ElementsAre(20));
  EXPECT_THAT(schedulePipeline(PipelineKind::OneForwardOneBackward, problem).peakBytes,
              ElementsAre(10));
  EXPECT_THAT(schedulePipeline(PipelineKind::ZeroBubbleH1, problem).peakBytes, ElementsAre(14));
  EXPECT_THAT(schedulePipeline(PipelineKind::ZeroBubbleH1, problem).weightGradDepth,
              ElementsAre(1));
}

TEST(Pipeline, NamesAreDistinctAndPlacementsAreWhatTheySay) {
  std::set<std::string_view> names;
  for (const PipelineKind kind : allPipelineKinds()) {
    names.insert(name(kind));
  }
  EXPECT_EQ(names.size(), 9U);
  EXPECT_THAT(roundRobinPlacement(3, 2), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(vPlacement(3), ElementsAre(0, 1, 2, 2, 1, 0));
}

void expectRefused(const PipelineProblem& problem, const std::string& word) {
  try {
    schedulePipeline(PipelineKind::GPipe, problem);
    ADD_FAILURE() << "expected an error about " << word;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(Pipeline, RefusesProblemsThatMakeNoSense) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  expectRefused({}, "at least one stage");
  expectRefused(stack(2, 0), "at least one micro-batch");
  expectRefused({.deviceOfStage = {0, -1}}, "device");
  expectRefused({.deviceOfStage = {0, 1 << 20}}, "device");
  expectRefused(stack(2, 1 << 30), "pieces");
  expectRefused({.deviceOfStage = {0, 1}, .slotOfStage = {0}}, "slots");
  expectRefused({.deviceOfStage = {0, 1}, .slotOfStage = {0, 2}}, "slots");
  expectRefused({.deviceOfStage = {0, 1}, .slotOfStage = {1, 2}}, "slots");
  expectRefused({.deviceOfStage = {0, 1}, .slotOfStage = {0, -1}}, "slots");
  expectRefused({.deviceOfStage = {1, 1}, .slotOfStage = {0, 0}}, "concurrent stages");
  expectRefused({.deviceOfStage = {0}, .costs = {{}, {}}}, "costs, one per stage");
  expectRefused({.deviceOfStage = {0}, .costs = {{-1, 1, 1}}}, "costs of at least 0");
  expectRefused({.deviceOfStage = {0}, .costs = {{kHuge, kHuge, 1}}}, "coarser unit");
  expectRefused({.deviceOfStage = {0}, .transferCost = -1}, "transfer cost");
  expectRefused({.deviceOfStage = {0}, .bytes = {{}, {}}}, "byte counts");
  expectRefused({.deviceOfStage = {0}, .bytes = {{1, -1}}}, "bytes of at least 0");
  expectRefused({.deviceOfStage = {0}, .bytes = {{kHuge, kHuge}}}, "coarser unit");
  expectRefused({.deviceOfStage = {0}, .byteCap = {1, 1}}, "byte caps");
  expectRefused({.deviceOfStage = {0}, .microBatches = 2, .byteCap = {1}}, "cap is 1");
}

}  // namespace
}  // namespace sluice::schedule
