#include "sluice/schedule/pipeline.h"

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

TEST(Pipeline, GPipeHasTheTextbookMakespanAndMemory) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::GPipe, stack(4, 8));
  EXPECT_EQ(s.makespan, 33);
  EXPECT_EQ(s.bound, 33);
  EXPECT_THAT(s.peakBytes, ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(s.bubble, ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(s.stashDepth, ElementsAre(8, 8, 8, 8));
  EXPECT_DOUBLE_EQ(s.rampShare, 9.0 / 33.0);
}

TEST(Pipeline, OneForwardOneBackwardHoldsAsManyMicroBatchesAsStagesFollow) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::OneForwardOneBackward, stack(4, 8));
  EXPECT_EQ(s.makespan, 33);
  EXPECT_THAT(s.peakBytes, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(s.stashDepth, ElementsAre(4, 3, 2, 1));
}

TEST(Pipeline, GroupedHoldsTwiceAsManyMicroBatches) {
  const PipelineSchedule s = schedulePipeline(PipelineKind::Grouped, stack(4, 8));
  EXPECT_EQ(s.makespan, 33);
  EXPECT_THAT(s.peakBytes, ElementsAre(8, 6, 4, 2));
}

}  // namespace
}  // namespace sluice::schedule
