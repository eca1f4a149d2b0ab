// Automatic plans where memory is short, which takes brute force a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/plan_support.h"

namespace sluice {
namespace {

using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::Cnn;
using testing::compiled;
using testing::expectBest;
using testing::found;
using ::testing::HasSubstr;
using testing::kKiB;
using testing::planning;

TEST(FindPlan, IsNotWorseThanBruteForceInTraining) {
  expectBest<BlockedCnn>(900 * kKiB, 3, true);
  expectBest<BlockedCnn>(48 * kKiB, 3, true);
  expectBest<BlockedGpt>(24 * kKiB, 2, true);
  expectBest<Cnn>(20 * kKiB, 2, true);
}

TEST(FindPlan, IsNotWorseThanBruteForceInInference) {
  expectBest<BlockedGpt>(8 * kKiB, 2, false);
}

TEST(FindPlan, NoPlanIsFasterThanTheBound) {
  for (const bool training : {true, false}) {
    testing::expectBound<BlockedCnn>(3, training);
    testing::expectBound<BlockedGpt>(2, training);
    testing::expectBound<Cnn>(4, training);
  }
}

TEST(FindPlan, WithoutRoomFindsTheSmallestBudget) {
  const Options options = planning(1 * kKiB, 4, true);
  const PlanReport report = found<BlockedCnn>(options, true, {.devices = 2, .seconds = 1e6});
  EXPECT_FALSE(report.best);
  ASSERT_TRUE(report.smallestBudget && report.smallest);
  const std::size_t least = *report.smallestBudget;
  EXPECT_TRUE(compiled<BlockedCnn>(planning(least, 4, true), true, *report.smallest));
  EXPECT_FALSE(testing::bruteForce<BlockedCnn>(planning(least - 1, 4, true), true, 2));
  // The fastest plan that only memory forbids is proposed.
  ASSERT_FALSE(report.changes.empty());
  EXPECT_THAT(report.changes[0].text, HasSubstr("memory per device"));
}

}  // namespace
}  // namespace sluice
