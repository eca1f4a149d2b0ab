// Random networks, cut and scheduled at random, against the same network on one device: every
// variable and every output, bit for bit.
#include "tests/e2e/random_models.h"

#include <gtest/gtest.h>

#include "tests/support/soak_seed.h"

namespace sluice {
namespace {

class RandomModels : public ::testing::TestWithParam<std::uint64_t> {};

void expectSameBits(std::uint64_t first, testing::Variety variety) {
  constexpr std::uint64_t kPerTest = 10;
  for (std::uint64_t seed = first; seed < first + kPerTest; ++seed) {
    const std::string different = testing::compareRandomNet(seed, variety);
    EXPECT_TRUE(different.empty()) << different;
  }
}

TEST_P(RandomModels, GiveTheBitsOfOneDevice) {
  expectSameBits(GetParam(), testing::Variety::Devices);
}

TEST_P(RandomModels, GiveTheBitsOfOneDeviceWhenTheyStream) {
  expectSameBits(GetParam(), testing::Variety::Streams);
}

TEST_P(RandomModels, GiveTheBitsOfOneDevicePerReplicaWhenReplicasShare) {
  expectSameBits(GetParam(), testing::Variety::Replicas);
}

TEST_P(RandomModels, GiveTheBitsOfOneDevicePerReplicaWhenReplicasExchangeValues) {
  expectSameBits(GetParam(), testing::Variety::Exchanges);
}

// ctest gives tests of one name each other's labels.
#define WITH_SEEDS(prefix)  \
  INSTANTIATE_TEST_SUITE_P( \
      prefix, RandomModels, ::testing::Range<std::uint64_t>(RANDOM_FIRST, RANDOM_END, 10))
WITH_SEEDS(RANDOM_SEEDS);

}  // namespace
}  // namespace sluice
