#include "sluice/base/philox.h"

#include <cmath>

#include <gtest/gtest.h>

namespace sluice {
namespace {

// Known-answer vectors published with the generator.
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}),
            (PhiloxBlock{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox(~std::uint64_t{0}, {~0U, ~0U, ~0U, ~0U}),
            (PhiloxBlock{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(philox(0x299f31d0a4093822ULL, {0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}),
            (PhiloxBlock{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Philox, UniformAndNormalHaveTheRightMoments) {
  const RandomStream stream{42, 1, 2};
  double sum = 0;
  double normalSum = 0;
  double normalSquares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const auto element = static_cast<std::uint64_t>(i);
    const double u = static_cast<double>(uniform01(stream.word(element)));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    const double n = standardNormal(stream, element);
    normalSum += n;
    normalSquares += n * n;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kCount, 0.5, 5 * 0.2887 / std::sqrt(kCount));
  EXPECT_NEAR(normalSum / kCount, 0.0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(normalSquares / kCount, 1.0, 5 * std::sqrt(2.0 / kCount));
}

}  // namespace
}  // namespace sluice
