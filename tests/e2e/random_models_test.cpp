// Random networks, cut and scheduled at random, against the same network on one device: every
// variable and every output, bit for bit.
#include "tests/e2e/random_models.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

class RandomModels : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomModels, GiveTheBitsOfOneDevice) {
  constexpr std::uint64_t kPerTest = 10;
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kPerTest; ++seed) {
    const std::string different = testing::compareRandomNet(seed);
    EXPECT_TRUE(different.empty()) << different;
  }
}

/// The same with phases, remote variables and activations, and recomputation at random.
TEST_P(RandomModels, GiveTheBitsOfOneDeviceWhenTheyStream) {
  constexpr std::uint64_t kPerTest = 10;
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kPerTest; ++seed) {
    const std::string different = testing::compareRandomNet(seed, true);
    EXPECT_TRUE(different.empty()) << different;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds,
                         RandomModels,
                         ::testing::Range<std::uint64_t>(RANDOM_FIRST, RANDOM_END, 10));

}  // namespace
}  // namespace sluice
