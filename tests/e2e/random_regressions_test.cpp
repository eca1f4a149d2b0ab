// Seeds of random models that once failed, by what was wrong.
#include <gtest/gtest.h>

#include "tests/e2e/random_models.h"

namespace sluice {
namespace {

void expectSameBits(std::initializer_list<std::uint64_t> seeds, bool streams = false) {
  for (const std::uint64_t seed : seeds) {
    const std::string different = testing::compareRandomNet(seed, streams);
    EXPECT_TRUE(different.empty()) << different;
  }
}

TEST(RandomModelRegressions, AConstantOfTheUpdateIsReadByADeviceBeforeTheOneItIsPlacedOn) {
  expectSameBits({43, 125, 194});
}

TEST(RandomModelRegressions, AProgramReadsVariablesOfADeviceThatItRunsNothingOn) {
  expectSameBits({12, 104});
}

TEST(RandomModelRegressions, AnAccumulatorIsSavedBesideTheUpdateThatReadsIt) {
  expectSameBits({234}, true);
}

TEST(RandomModelRegressions, APhaseOfOneDeviceHasVariablesOnAnother) {
  expectSameBits({376, 603, 1919}, true);
}

TEST(RandomModelRegressions, AStageIsWithoutOpsInInference) {
  expectSameBits({1491});
  expectSameBits({1491}, true);
}

}  // namespace
}  // namespace sluice
