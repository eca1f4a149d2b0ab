#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/parallel/stage.h"
#include "sluice/parallel/strategy.h"
#include "tests/support/message_of.h"

namespace sluice::parallel {
namespace {

using ::testing::HasSubstr;
using testing::messageOf;

struct Numbers {
  Liveness liveness;
  bool separate;
  std::int32_t count;
  std::vector<std::int32_t> forward;
  std::vector<std::int32_t> backward;
};

TEST(Phases, AreNumberedByLiveness) {
  for (const Numbers& expected :
       {Numbers{Liveness::AlwaysLive, false, 3, {0, 1, 2}, {4, 3, 2}},
        Numbers{Liveness::AlwaysLive, true, 4, {0, 1, 2}, {6, 5, 4}},
        Numbers{Liveness::OffChipAfterFwd, false, 6, {0, 1, 2}, {10, 9, 8}},
        Numbers{Liveness::OffChipAfterFwdNoOverlap, false, 8, {0, 2, 4}, {14, 12, 10}},
        Numbers{Liveness::OffChipAfterEachPhase, false, 12, {0, 4, 8}, {22, 18, 14}}}) {
    const PhaseNumbers numbers = numberPhases(3, expected.liveness, expected.separate);
    EXPECT_EQ(numbers.count, expected.count) << name(expected.liveness);
    EXPECT_EQ(numbers.forward, expected.forward) << name(expected.liveness);
    EXPECT_EQ(numbers.backward, expected.backward) << name(expected.liveness);
  }
  EXPECT_THROW(numberPhases(0, Liveness::AlwaysLive, false), InvalidArgument);
}

TEST(Phases, KeepTheParityOfTheirDevices) {
  for (std::int32_t phases = 1; phases < 9; ++phases) {
    for (const Liveness liveness : {Liveness::AlwaysLive, Liveness::OffChipAfterFwd}) {
      const PhaseNumbers numbers = numberPhases(phases, liveness, false);
      for (std::size_t p = 0; p < numbers.forward.size(); ++p) {
        EXPECT_EQ(numbers.forward[p] % 2, numbers.backward[p] % 2);
      }
    }
  }
}

TEST(Phase, IsMadeOfBlocksOrOfStages) {
  const Phase blocks("A", "B");
  ASSERT_EQ(blocks.stages().size(), 1U);
  EXPECT_EQ(blocks.stage(0).blocks(), (std::vector<std::string>{"A", "B"}));
  Phase stages(Stage("A"), Stage("B"));
  stages.devices(0, 2);
  EXPECT_EQ(stages.stage(1).device(), 2);
  EXPECT_EQ(stages.str(), R"(Phase(Stage("A").device(0), Stage("B").device(2)))");
  EXPECT_THAT(messageOf<InvalidArgument>([&] { stages.devices(1); }),
              HasSubstr("1 devices for 2 stages"));
  EXPECT_EQ(stages.stage(0).device(), 0);
  EXPECT_THROW(stages.stage(2), InvalidArgument);
  EXPECT_THROW(Phase(std::vector<Stage>{}), InvalidArgument);
  EXPECT_THROW(Phase(std::vector<Stage>{ConcurrentStages("A", "B")}), InvalidArgument);
  EXPECT_THROW(Phase::automatic(0), InvalidArgument);
}

TEST(PhasedExecution, GivesAccessToItsPhases) {
  ParallelPhasedExecution strategy(Phase(Stage("A"), Stage("B")), Phase(Stage("C"), Stage("D")));
  ASSERT_EQ(strategy.numPhases(), 2U);
  strategy.phase(1).devices(1, 3);
  EXPECT_EQ(strategy.stage("D").device(), 3);
  EXPECT_EQ(std::as_const(strategy).phase(1).stage(0).device(), 1);
  EXPECT_THAT(messageOf<InvalidArgument>([&] { strategy.phase(2); }), HasSubstr("no phase 2"));
  EXPECT_THAT(messageOf<InvalidArgument>([] { SerialPhasedExecution(std::vector<Phase>{}); }),
              HasSubstr("no phases"));
  EXPECT_THAT(messageOf<InvalidArgument>([] { SerialPhasedExecution("A", Phase("B", "A")); }),
              HasSubstr("block 'A' is in two stages"));
}

TEST(PhasedExecution, PlacesStagesByTheirGroups) {
  const std::vector<BlockInfo> blocks = {{"A"}, {"B"}, {"C"}, {"D"}, {"E"}, {"F"}};
  const auto devicesOf = [&](const Strategy& strategy) {
    std::vector<std::int32_t> devices;
    for (const StageInfo& stage : resolveStages(strategy, blocks).stages) {
      devices.push_back(stage.device);
    }
    return devices;
  };
  const std::vector<Phase> phases = {
      Phase(Stage("A"), Stage("B")), Phase(Stage("C"), Stage("D")), Phase(Stage("E"), Stage("F"))};
  // Phases 0 and 2 on devices 0 and 2, phase 1 on devices 1 and 3.
  EXPECT_EQ(devicesOf(ParallelPhasedExecution(phases)),
            (std::vector<std::int32_t>{0, 2, 1, 3, 0, 2}));
  EXPECT_EQ(devicesOf(SerialPhasedExecution(phases)),
            (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1}));
  const StagePlan plan = resolveStages(SerialPhasedExecution(phases), blocks);
  EXPECT_EQ(plan.phaseOfStage, (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2}));
}

}  // namespace
}  // namespace sluice::parallel
