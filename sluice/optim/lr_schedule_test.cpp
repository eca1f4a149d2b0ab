#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/optim/optimizers.h"
#include "tests/support/message_of.h"

namespace sluice::optim {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;

TEST(LrSchedule, ConstantIsOneForEver) {
  EXPECT_EQ(LrSchedule::constant().at(0), 1.0);
  EXPECT_EQ(LrSchedule().at(1'000'000), 1.0);
}

TEST(LrSchedule, StepMultipliesAfterEverySize) {
  const LrSchedule schedule = LrSchedule::step(3, 0.5);
  EXPECT_EQ(schedule.at(0), 1.0);
  EXPECT_EQ(schedule.at(2), 1.0);
  EXPECT_EQ(schedule.at(3), 0.5);
  EXPECT_EQ(schedule.at(5), 0.5);
  EXPECT_EQ(schedule.at(6), 0.25);
}

TEST(LrSchedule, MultiStepMultipliesAtEachMilestone) {
  const LrSchedule schedule = LrSchedule::multiStep({2, 5}, 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(1), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(2), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(4), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(5), 0.01);
  EXPECT_DOUBLE_EQ(schedule.at(500), 0.01);
}

TEST(LrSchedule, ExponentialIsAPowerOfGamma) {
  const LrSchedule schedule = LrSchedule::exponential(0.5);
  EXPECT_EQ(schedule.at(0), 1.0);
  EXPECT_EQ(schedule.at(4), 0.0625);
}

TEST(LrSchedule, CosineFallsToTheMinimumAndStays) {
  const LrSchedule schedule = LrSchedule::cosine(4, 0.2);
  // 0.2 + 0.8 (1 + cos(pi k / 4)) / 2
  EXPECT_DOUBLE_EQ(schedule.at(0), 1.0);
  EXPECT_NEAR(schedule.at(1), 0.2 + 0.4 * (1.0 + 0.70710678118654752), 1e-15);
  EXPECT_NEAR(schedule.at(2), 0.6, 1e-15);
  EXPECT_NEAR(schedule.at(4), 0.2, 1e-15);
  EXPECT_NEAR(schedule.at(9), 0.2, 1e-15);
}

TEST(LrSchedule, WarmUpRisesLinearlyThenTheScheduleBegins) {
  const LrSchedule schedule = LrSchedule::step(2, 0.5).warmUp(4, 0.2);
  EXPECT_NEAR(schedule.at(0), 0.2, 1e-15);
  EXPECT_NEAR(schedule.at(1), 0.4, 1e-15);
  EXPECT_NEAR(schedule.at(3), 0.8, 1e-15);
  EXPECT_EQ(schedule.at(4), 1.0);
  EXPECT_EQ(schedule.at(5), 1.0);
  EXPECT_EQ(schedule.at(6), 0.5);
}

TEST(LrSchedule, RefusesWhatMakesNoSense) {
  EXPECT_THAT(messageOf([] { LrSchedule::step(0); }), HasSubstr("step size"));
  EXPECT_THAT(messageOf([] { LrSchedule::exponential(-1.0); }), HasSubstr("gamma"));
  EXPECT_THAT(messageOf([] { LrSchedule::multiStep({5, 2}); }), HasSubstr("ascend"));
  EXPECT_THAT(messageOf([] { LrSchedule::cosine(-3); }), HasSubstr("cosine"));
  EXPECT_THAT(messageOf([] { LrSchedule::constant().warmUp(0); }), HasSubstr("warm-up"));
  EXPECT_THAT(messageOf([] { LrSchedule::constant().warmUp(2).warmUp(2); }), HasSubstr("already"));
  EXPECT_THAT(messageOf([] { LrSchedule::constant().at(-1); }), HasSubstr("-1"));
}

}  // namespace
}  // namespace sluice::optim
