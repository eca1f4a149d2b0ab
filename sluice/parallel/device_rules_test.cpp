#include "sluice/parallel/device_rules.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "tests/support/message_of.h"

namespace sluice::parallel {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::HasSubstr;

std::int64_t needed(const std::vector<std::int32_t>& ids, std::int64_t replicas) {
  return neededDevices(ids, replicas);
}

TEST(NeededDevices, CountsUpToTheLargestIdOfEveryReplica) {
  EXPECT_EQ(needed({0, 1, 2}, 1), 3);
  EXPECT_EQ(needed({0, 1, 0, 1}, 1), 2);
  EXPECT_EQ(needed({0, 3}, 2), 8);
  EXPECT_EQ(needed({}, 1), 0);
}

TEST(NeededDevices, RefusesImpossibleNumbers) {
  EXPECT_THAT(messageOf([] { needed({0, -1}, 1); }), HasSubstr("got -1"));
  EXPECT_THAT(messageOf([] { needed({0}, 0); }), HasSubstr("replicationFactor"));
}

TEST(ReserveDevices, TakesAnyCountWithoutTheIpusRules) {
  for (const std::int64_t count : {1, 3, 64, 65, 1000}) {
    const DeviceReservation got = reserveDevices(count, IpuRules::Off, RoundUp::Yes);
    EXPECT_EQ(got.devices, count);
    EXPECT_EQ(got.warning, "");
  }
}

TEST(ReserveDevices, WantsAPowerOfTwoUnderThem) {
  for (const std::int64_t power : {1, 2, 4, 64}) {
    EXPECT_EQ(reserveDevices(power, IpuRules::Enforced, RoundUp::No).devices, power);
  }
  EXPECT_THAT(messageOf([] { reserveDevices(3, IpuRules::Enforced, RoundUp::No); }),
              AllOf(HasSubstr("needs 3"), HasSubstr("use 4"), HasSubstr("autoRoundNumDevices")));
}

TEST(ReserveDevices, RoundsUpAndSaysHowManyStayIdle) {
  const DeviceReservation three = reserveDevices(3, IpuRules::Enforced, RoundUp::Yes);
  EXPECT_EQ(three.devices, 4);
  EXPECT_THAT(three.warning, HasSubstr("1 stay idle"));
  EXPECT_EQ(reserveDevices(33, IpuRules::Enforced, RoundUp::Yes).devices, 64);
  EXPECT_EQ(reserveDevices(4, IpuRules::Enforced, RoundUp::Yes).warning, "");
}

TEST(ReserveDevices, HasALimitPerProcess) {
  EXPECT_THAT(messageOf([] { reserveDevices(128, IpuRules::Enforced, RoundUp::Yes); }),
              AllOf(HasSubstr("too many"), HasSubstr("128"), HasSubstr("64")));
  EXPECT_THAT(messageOf([] { reserveDevices(65, IpuRules::Enforced, RoundUp::Yes); }),
              HasSubstr("too many"));
}

TEST(ReplicasFor, DividesTheDevices) {
  EXPECT_EQ(replicasFor(8, 2), 4);
  EXPECT_EQ(replicasFor(3, 3), 1);
  EXPECT_THAT(messageOf([] { replicasFor(8, 3); }),
              AllOf(HasSubstr("8 devices"), HasSubstr("multiple"), HasSubstr("3")));
  EXPECT_THAT(messageOf([] { replicasFor(8, 0); }), HasSubstr("multiple"));
}

std::string enforced(const PipelineLoad& load) {
  return messageOf([&] { checkPipelineLoad(load, IpuRules::Enforced); });
}

TEST(PipelineLoad, TrainingNeedsAsManyMicroBatchesAsThereAreStagesWithBackward) {
  for (const std::int64_t count : {1, 4, 5, 6}) {
    EXPECT_THAT(enforced({.stages = 4, .microBatches = count, .training = true}),
                AllOf(HasSubstr("at least 7, got " + std::to_string(count)),
                      HasSubstr("gradientAccumulation"),
                      HasSubstr("4 stages become 7, 3 extra")));
  }
  EXPECT_EQ(enforced({.stages = 4, .microBatches = 7, .training = true}), "nothing thrown");
  EXPECT_EQ(enforced({.stages = 1, .microBatches = 1, .training = true}), "nothing thrown");
}

TEST(PipelineLoad, InferenceNeedsAsManyAsStages) {
  EXPECT_THAT(enforced({.stages = 4, .microBatches = 2}),
              AllOf(HasSubstr("deviceIterations of at least 4"), HasSubstr("got 2")));
  EXPECT_EQ(enforced({.stages = 4, .microBatches = 4}), "nothing thrown");
}

TEST(PipelineLoad, GroupedAndInterleavedWantMultiples) {
  const auto with = [](PipelineKind schedule, std::int64_t count) {
    return enforced({.stages = 2, .microBatches = count, .training = true, .schedule = schedule});
  };
  EXPECT_THAT(with(PipelineKind::Grouped, 6),
              AllOf(HasSubstr("multiple of 4"), HasSubstr("got 6")));
  EXPECT_THAT(with(PipelineKind::Grouped, 2), HasSubstr("multiple of 4"));
  EXPECT_EQ(with(PipelineKind::Grouped, 8), "nothing thrown");
  EXPECT_EQ(with(PipelineKind::Interleaved, 6), "nothing thrown");
  EXPECT_THAT(with(PipelineKind::Interleaved, 5), HasSubstr("multiple of 2"));
  EXPECT_EQ(with(PipelineKind::Sequential, 1), "nothing thrown");
}

TEST(PipelineLoad, IsAWarningWithItsUtilisationElsewhere) {
  const std::string text =
      checkPipelineLoad({.stages = 4, .microBatches = 4, .training = true}, IpuRules::Off);
  // 4 / (4 + 7 - 1) and 7 / (7 + 7 - 1)
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("gradientAccumulation 4"), HasSubstr("40 %"), HasSubstr("7 gives 54 %")));
  EXPECT_EQ(checkPipelineLoad({.stages = 4, .microBatches = 7, .training = true}, IpuRules::Off),
            "");
  EXPECT_EQ(
      checkPipelineLoad(
          {.stages = 2, .microBatches = 6, .training = true, .schedule = PipelineKind::Grouped},
          IpuRules::Off),
      "");
  EXPECT_THAT(checkPipelineLoad({.stages = 3, .microBatches = 1}, IpuRules::Off),
              HasSubstr("deviceIterations 1"));
  EXPECT_EQ(checkPipelineLoad({.stages = 1, .microBatches = 1}, IpuRules::Off), "");
}

TEST(PipelineLoad, UtilisationIsBusyTimestepsOverAll) {
  const auto of = [](PipelineKind schedule, bool training) {
    return utilisation(
        {.stages = 2, .microBatches = 4, .training = training, .schedule = schedule});
  };
  // From the tables of the schedules: 4 micro-batches over 2 stages.
  EXPECT_THAT(of(PipelineKind::Grouped, true), DoubleEq(4.0 / 7));       // 7 timesteps
  EXPECT_THAT(of(PipelineKind::Interleaved, true), DoubleEq(8.0 / 10));  // 10 of one stage
  EXPECT_THAT(of(PipelineKind::Sequential, true), DoubleEq(0.5));
  EXPECT_THAT(of(PipelineKind::Popart, true), DoubleEq(4.0 / 6));   // N = G + P - 1 cycles
  EXPECT_THAT(of(PipelineKind::Popart, false), DoubleEq(4.0 / 5));  // P = S
}

TEST(PipelineLoad, RefusesEmptyPipelines) {
  EXPECT_THAT(messageOf([] { checkPipelineLoad({.stages = 0}, IpuRules::Off); }),
              HasSubstr("at least one stage"));
  EXPECT_THAT(messageOf([] { checkPipelineLoad({.microBatches = 0}, IpuRules::Off); }),
              HasSubstr("one micro-batch"));
}

}  // namespace
}  // namespace sluice::parallel
