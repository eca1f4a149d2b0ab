#include "sluice/parallel/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "tests/support/message_of.h"

namespace sluice::parallel {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

/// Blocks B1, B2, ... on these devices.
std::vector<BlockInfo> blocksOn(std::initializer_list<std::int32_t> devices) {
  std::vector<BlockInfo> blocks;
  for (const std::int32_t device : devices) {
    blocks.push_back({"B" + std::to_string(blocks.size() + 1), device});
  }
  return blocks;
}

std::vector<std::int32_t> devicesOf(const StagePlan& plan) {
  std::vector<std::int32_t> devices;
  for (const StageInfo& stage : plan.stages) {
    devices.push_back(stage.device);
  }
  return devices;
}

TEST(Strategy, TakesStagesIdsAndListsInAnyMixture) {
  const PipelinedExecution mixed{Stage("B1").device(3), "B2", {"B3", "B4"}, std::string("B5")};
  ASSERT_EQ(mixed.stages().size(), 4U);
  EXPECT_EQ(mixed.stage(0).blocks(), Names{"B1"});
  EXPECT_EQ(mixed.stage(0).device(), 3);
  EXPECT_EQ(mixed.stage(1).blocks(), Names{"B2"});
  EXPECT_EQ(mixed.stage(1).device(), std::nullopt);
  EXPECT_EQ(mixed.stage(2).blocks(), (Names{"B3", "B4"}));
  EXPECT_EQ(mixed.stage("B4").blocks(), (Names{"B3", "B4"}));
  EXPECT_EQ(mixed.kind(), StrategyKind::Pipelined);
  EXPECT_EQ(mixed.autoStage(), std::nullopt);
}

TEST(Strategy, IsWrittenWithParenthesesOrBracesAlike) {
  EXPECT_EQ(PipelinedExecution("B1", "B2", "B3"), (PipelinedExecution{"B1", "B2", "B3"}));
  EXPECT_EQ(PipelinedExecution("B1", Stage("B2", "B3")), (PipelinedExecution{"B1", {"B2", "B3"}}));
  EXPECT_EQ(ShardedExecution("B1", "B2"), (ShardedExecution{"B1", "B2"}));
  EXPECT_EQ((PipelinedExecution{{"B1", "B2"}}).stages().size(), 1U);
  EXPECT_EQ((Stage{"A", "B", "C"}), Stage("A", "B", "C"));
  EXPECT_EQ((ShardedExecution{"B1"}).stage(0), Stage("B1"));
}

TEST(Strategy, ASingleStageIsAlsoAStrategy) {
  EXPECT_EQ((PipelinedExecution{Stage("B1", "B2").device(1)}).stages().size(), 1U);
  EXPECT_EQ(PipelinedExecution(std::vector<Stage>{Stage("B1")}).stages().size(), 1U);
}

TEST(Strategy, DefaultsToOneStagePerDeviceOrOneShardPerBlock) {
  EXPECT_EQ(PipelinedExecution().autoStage(), AutoStage::SameAsDevice);
  EXPECT_EQ(PipelinedExecution{}.autoStage(), AutoStage::SameAsDevice);
  EXPECT_EQ(ShardedExecution().autoStage(), AutoStage::AutoIncrement);
  EXPECT_EQ(PipelinedExecution{AutoStage::AutoIncrement}.autoStage(), AutoStage::AutoIncrement);
  EXPECT_TRUE(PipelinedExecution().stages().empty());
}

TEST(Strategy, StagesCanBeChangedByIdOrBlock) {
  PipelinedExecution strategy{"B1", "B2"};
  strategy.stage(0).device(5);
  strategy.stage("B2").device(4);
  EXPECT_EQ(strategy, (PipelinedExecution{Stage("B1").device(5), Stage("B2").device(4)}));
  EXPECT_THAT(messageOf([&] { (void)strategy.stage(2); }), HasSubstr("no stage 2"));
  EXPECT_THAT(messageOf([&] { (void)strategy.stage("B3"); }), HasSubstr("'B3'"));
  EXPECT_THAT(messageOf([] { (void)PipelinedExecution().stage(0); }), HasSubstr("no stage 0"));
}

TEST(Strategy, PrintsAsItIsWritten) {
  EXPECT_EQ(
      (PipelinedExecution{Stage("B1", "B2").device(1), "B3"}).str(),
      "PipelinedExecution(Stage(\"B1\", \"B2\").device(1), Stage(\"B3\")).schedule(\"1f1b\")");
  EXPECT_EQ(Stage("a\"b\\").str(), R"(Stage("a\"b\\"))");
  EXPECT_EQ(ShardedExecution().str(), "ShardedExecution(AutoStage.AutoIncrement)");
  EXPECT_EQ(PipelinedExecution().schedule("zb-h1").str(),
            "PipelinedExecution(AutoStage.SameAsDevice).schedule(\"zb-h1\")");
}

TEST(Strategy, KnowsItsSchedulesByName) {
  for (const std::string_view text : {"sequential",
                                      "grouped",
                                      "interleaved",
                                      "gpipe",
                                      "1f1b",
                                      "chunked",
                                      "zb-h1",
                                      "zero-bubble",
                                      "popart"}) {
    EXPECT_EQ(name(parsePipelineKind(text)), text);
  }
  EXPECT_EQ(parsePipelineKind("1f1b"), PipelineKind::OneForwardOneBackward);
  EXPECT_EQ(parsePipelineKind("zero-bubble"), PipelineKind::ZeroBubble);
  EXPECT_EQ(PipelinedExecution().schedule(), PipelineKind::OneForwardOneBackward);
  EXPECT_EQ(PipelinedExecution().schedule(PipelineKind::GPipe).schedule(), PipelineKind::GPipe);
  EXPECT_THAT(messageOf([] { PipelinedExecution().schedule("fastest"); }),
              AllOf(HasSubstr("'fastest'"), HasSubstr("popart, gpipe, 1f1b")));
}

TEST(Strategy, RefusesStagesThatCannotBe) {
  EXPECT_THAT(messageOf([] { (void)Stage(Names{}); }), HasSubstr("at least one block"));
  EXPECT_THAT(messageOf([] { Stage("B1", ""); }), HasSubstr("without an id"));
  EXPECT_THAT(messageOf([] { Stage("B1", "B1"); }), HasSubstr("'B1' twice"));
  EXPECT_THAT(messageOf([] { Stage("B1").device(-1); }), HasSubstr("got -1"));
  EXPECT_THAT(messageOf([] { PipelinedExecution(std::vector<Stage>()); }), HasSubstr("empty list"));
  EXPECT_THAT(messageOf([] { PipelinedExecution("B1", Stage("B2", "B1")); }),
              AllOf(HasSubstr("'B1' is in two stages"), HasSubstr("0 and 1")));
  EXPECT_THAT(messageOf([] { ShardedExecution{"A", "B", "A"}; }), HasSubstr("two stages, 0 and 2"));
}

TEST(BlocksOf, ListsBlocksByTheirFirstOpThenThoseWithout) {
  ir::Graph graph;
  ir::GraphBuilder b(graph);
  graph.blockIndex("unused");
  const auto op = [&](std::string_view block, std::int32_t device) {
    b.place.block = block.empty() ? -1 : graph.blockIndex(block);
    b.place.device = device;
    b.scalar(DType::F32, 1);
  };
  graph.blockIndex("second");
  op("", 7);
  op("first", 2);
  op("second", -1);
  op("first", 2);
  EXPECT_THAT(
      blocksOf(graph),
      ElementsAre(BlockInfo{"first", 2}, BlockInfo{"second", -1}, BlockInfo{"unused", -1, false}));
  op("second", 1);
  EXPECT_THAT(messageOf([&] { blocksOf(graph); }),
              AllOf(HasSubstr("'second'"), HasSubstr("device 1")));
}

TEST(ResolveStages, MayBeGivenBlocksWithoutOps) {
  const std::vector<BlockInfo> blocks = {{"A"}, {"C"}, {"B", -1, false}};
  const StagePlan named = resolveStages(PipelinedExecution{"A", "B", "C"}, blocks);
  EXPECT_THAT(named.stageOfBlock, ElementsAre(0, 2, 1));
  const StagePlan ruled = resolveStages(PipelinedExecution(AutoStage::AutoIncrement), blocks);
  EXPECT_EQ(ruled.stages.size(), 2U);
  EXPECT_NO_THROW(resolveStages(PipelinedExecution{"A", "C"}, blocks));
}

TEST(ResolveStages, HasNoStagesWithoutOpsAtTheEnd) {
  const std::vector<BlockInfo> blocks = {{"A"}, {"B", -1, false}, {"C", -1, false}};
  const StagePlan plan = resolveStages(PipelinedExecution{"A", "B", "C"}, blocks);
  EXPECT_THAT(devicesOf(plan), ElementsAre(0));
  EXPECT_THAT(plan.slotOfStage, ElementsAre(0));
  EXPECT_THAT(plan.stageOfBlock, ElementsAre(0, 0, 0));
  const StagePlan first = resolveStages(ShardedExecution{"C", "A", "B"}, blocks);
  EXPECT_THAT(first.stageOfBlock, ElementsAre(1, 1, 0));
  const StagePlan phased = resolveStages(SerialPhasedExecution("A", "B"), blocks);
  EXPECT_THAT(phased.phaseOfStage, ElementsAre(0));
  const std::vector<BlockInfo> none = {{"A", -1, false}, {"B", -1, false}};
  EXPECT_EQ(resolveStages(PipelinedExecution{"A", "B"}, none).stages.size(), 1U);
}

TEST(ResolveStages, PutsEachStageOnTheDeviceOfItsPosition) {
  const StagePlan plan =
      resolveStages(PipelinedExecution{"B1", {"B2", "B3"}, "B4"}, blocksOn({-1, -1, -1, -1}));
  EXPECT_THAT(devicesOf(plan), ElementsAre(0, 1, 2));
  EXPECT_EQ(plan.stages[1].blocks, (Names{"B2", "B3"}));
  EXPECT_THAT(plan.stageOfBlock, ElementsAre(0, 1, 1, 2));
}

TEST(ResolveStages, AStagesDeviceOverridesItsBlocksAndTheseItsPosition) {
  const PipelinedExecution strategy{Stage("B1").device(7), "B2", {"B3", "B4"}, "B5"};
  EXPECT_THAT(devicesOf(resolveStages(strategy, blocksOn({2, 4, -1, 6, -1}))),
              ElementsAre(7, 4, 6, 3));
}

TEST(ResolveStages, StagesMayRunBackwardsOverDevicesAndShareOne) {
  EXPECT_THAT(devicesOf(resolveStages(PipelinedExecution{"B1", "B2", "B3"}, blocksOn({2, 1, 0}))),
              ElementsAre(2, 1, 0));
  const StagePlan shared =
      resolveStages(PipelinedExecution{"B1", "B2", "B3", "B4"}, blocksOn({0, 1, 0, 1}));
  EXPECT_THAT(devicesOf(shared), ElementsAre(0, 1, 0, 1));
}

TEST(ResolveStages, MergesNeighboursOnOneDevice) {
  for (const Strategy& strategy :
       {Strategy(PipelinedExecution{"B1", "B2", "B3"}), Strategy(ShardedExecution())}) {
    const StagePlan plan = resolveStages(strategy, blocksOn({0, 0, 1}));
    EXPECT_THAT(plan.stages, ElementsAre(StageInfo{0, {"B1", "B2"}}, StageInfo{1, {"B3"}}));
    EXPECT_THAT(plan.stageOfBlock, ElementsAre(0, 0, 1));
  }
}

TEST(ResolveStages, SameAsDeviceMakesOneStagePerDevice) {
  const StagePlan plan = resolveStages(PipelinedExecution(), blocksOn({0, 1, 0, 3}));
  EXPECT_THAT(plan.stages,
              ElementsAre(StageInfo{0, {"B1", "B3"}}, StageInfo{1, {"B2"}}, StageInfo{3, {"B4"}}));
  EXPECT_THAT(plan.stageOfBlock, ElementsAre(0, 1, 0, 2));
}

TEST(ResolveStages, AutoIncrementMakesOneStagePerBlockInOrder) {
  const PipelinedExecution strategy(AutoStage::AutoIncrement);
  const StagePlan back = resolveStages(strategy, blocksOn({0, 1, 0}));
  EXPECT_THAT(devicesOf(back), ElementsAre(0, 1, 0));
  EXPECT_THAT(back.stageOfBlock, ElementsAre(0, 1, 2));
  EXPECT_THAT(devicesOf(resolveStages(strategy, blocksOn({0, 1, 2, 1}))), ElementsAre(0, 1, 2, 1));
  EXPECT_THAT(devicesOf(resolveStages(strategy, blocksOn({-1, -1, 5}))), ElementsAre(0, 1, 5));
  EXPECT_THAT(devicesOf(resolveStages(strategy, blocksOn({0, 63}))), ElementsAre(0, 63));
  EXPECT_THAT(messageOf([&] {
                resolveStages(strategy, blocksOn({0, 64}));
              }),
              AllOf(HasSubstr("device 64"), HasSubstr("use 2 devices")));
}

TEST(ResolveStages, OneAnnotationServesAllStrategies) {
  const std::vector<BlockInfo> blocks = blocksOn({0, 1, 2});
  const StagePlan pipelined = resolveStages(PipelinedExecution(), blocks);
  EXPECT_EQ(resolveStages(ShardedExecution(), blocks).stages, pipelined.stages);
  EXPECT_EQ(resolveStages(ShardedExecution{"B1", "B2", "B3"}, blocks).stages, pipelined.stages);
  EXPECT_EQ(resolveStages(PipelinedExecution(AutoStage::AutoIncrement), blocks).stages,
            pipelined.stages);
}

TEST(ResolveStages, AModelWithoutBlocksIsOneStageOnDevice0) {
  for (const Strategy& strategy : {Strategy(PipelinedExecution()), Strategy(ShardedExecution())}) {
    const StagePlan plan = resolveStages(strategy, {});
    EXPECT_THAT(plan.stages, ElementsAre(StageInfo{0, {}}));
    EXPECT_TRUE(plan.stageOfBlock.empty());
  }
}

TEST(ResolveStages, RefusesUnknownBlocksAndListsTheKnownOnes) {
  EXPECT_THAT(messageOf([] {
                resolveStages(PipelinedExecution{"B1", "C9"}, blocksOn({0, 1}));
              }),
              AllOf(HasSubstr("unknown block 'C9'"), HasSubstr("'B1', 'B2'")));
  EXPECT_THAT(messageOf([] { resolveStages(ShardedExecution{"B1"}, {}); }),
              HasSubstr("the model has no block"));
}

TEST(ResolveStages, RefusesBlocksWithoutAStage) {
  EXPECT_THAT(messageOf([] {
                resolveStages(PipelinedExecution{"B1"}, blocksOn({0, 1}));
              }),
              HasSubstr("block 'B2' of the model is in no stage"));
}

TEST(ResolveStages, SameAsDeviceNeedsTheDeviceOfEveryBlock) {
  EXPECT_THAT(messageOf([] {
                resolveStages(PipelinedExecution(), blocksOn({0, -1}));
              }),
              AllOf(HasSubstr("'B2' has no device"), HasSubstr("AutoIncrement")));
  const StagePlan undecided = resolveStages(PipelinedExecution(), blocksOn({-1, -1}));
  EXPECT_THAT(devicesOf(undecided), ElementsAre(0));
  EXPECT_THAT(undecided.stageOfBlock, ElementsAre(0, 0));
}

TEST(ResolveStages, RefusesAStageWhoseBlocksDisagreeAboutTheDevice) {
  const PipelinedExecution open{{"B1", "B2"}};
  EXPECT_THAT(messageOf([&] {
                resolveStages(open, blocksOn({0, 1}));
              }),
              AllOf(HasSubstr("'B1' on device 0"), HasSubstr("'B2' on device 1")));
  EXPECT_THAT(
      devicesOf(resolveStages(PipelinedExecution{Stage("B1", "B2").device(2)}, blocksOn({0, 1}))),
      ElementsAre(2));
}

}  // namespace
}  // namespace sluice::parallel
