// Seeds of random models that once failed, by what was wrong.
#include <gtest/gtest.h>

#include "tests/e2e/random_models.h"

namespace sluice {
namespace {

using testing::Variety;

void expectSameBits(std::initializer_list<std::uint64_t> seeds,
                    Variety variety = Variety::Devices) {
  for (const std::uint64_t seed : seeds) {
    const std::string different = testing::compareRandomNet(seed, variety);
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
  expectSameBits({234}, Variety::Streams);
}

TEST(RandomModelRegressions, APhaseOfOneDeviceHasVariablesOnAnother) {
  expectSameBits({376, 603, 1919}, Variety::Streams);
}

TEST(RandomModelRegressions, ASumOverReplicasReadsItsOperandBehindTheLastKernel) {
  expectSameBits({229, 404, 569}, Variety::Replicas);
}

TEST(RandomModelRegressions, AConstantIsSummedOverReplicas) {
  expectSameBits({121, 138, 314}, Variety::Replicas);
}

TEST(RandomModelRegressions, SumsOverReplicasComeInTheOrderOfTheirMemory) {
  expectSameBits({832}, Variety::Replicas);
}

TEST(RandomModelRegressions, ASumBehindTheLoopReadsWhatAnEarlyPartOfASegmentMade) {
  expectSameBits({255, 422}, Variety::Exchanges);
}

TEST(RandomModelRegressions, AnInputIsFedIntoMemoryThatACopyBehindItsOwnStillReads) {
  expectSameBits({924067755}, Variety::Streams);
  expectSameBits({924067755}, Variety::Replicas);
}

TEST(RandomModelRegressions, AStageIsWithoutOpsInInference) {
  expectSameBits({1491});
  expectSameBits({1491}, Variety::Streams);
}

}  // namespace
}  // namespace sluice
