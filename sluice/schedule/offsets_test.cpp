#include "sluice/schedule/offsets.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace sluice::schedule {
namespace {

void expectNoOverlap(const std::vector<Lifetime>& buffers, const OffsetPlan& plan) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.peak);
    EXPECT_EQ(plan.offsets[i] % 64, 0U);
    for (std::size_t j = 0; j < i; ++j) {
      const bool together = buffers[i].begin < buffers[j].end && buffers[j].begin < buffers[i].end;
      const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(!together || apart) << i << " and " << j;
    }
  }
}

/// The smallest peak over every order of placing buffers lowest first: exact for these sizes.
std::size_t bruteForcePeak(const std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::size_t best = ~std::size_t{0};
  do {
    std::vector<std::size_t> offsets(buffers.size(), 0);
    std::size_t peak = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const std::size_t i = order[k];
      bool moved = true;
      while (moved) {
        moved = false;
        for (std::size_t l = 0; l < k; ++l) {
          const std::size_t j = order[l];
          const bool together =
              buffers[i].begin < buffers[j].end && buffers[j].begin < buffers[i].end;
          if (together && offsets[i] < offsets[j] + buffers[j].bytes &&
              offsets[j] < offsets[i] + buffers[i].bytes) {
            offsets[i] = offsets[j] + buffers[j].bytes;
            moved = true;
          }
        }
      }
      peak = std::max(peak, offsets[i] + buffers[i].bytes);
    }
    best = std::min(best, peak);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST(Offsets, BuffersThatNeverMeetShareMemory) {
  const std::vector<Lifetime> buffers = {{0, 2, 128}, {2, 4, 128}, {1, 3, 64}};
  const OffsetPlan plan = planOffsets(buffers, 64);
  expectNoOverlap(buffers, plan);
  EXPECT_EQ(plan.peak, 192U);
  EXPECT_EQ(plan.lowerBound, 192U);
}

TEST(Offsets, AnEmptyLifetimeOrSizeTakesNoRoom) {
  const std::vector<Lifetime> buffers = {{0, 5, 64}, {3, 3, 640}, {0, 5, 0}};
  EXPECT_EQ(planOffsets(buffers, 64).offsets[0], 0U);
}

TEST(Offsets, RandomPlansNeverOverlapAndStayNearTheOptimum) {
  std::uint64_t worstSeed = 0;
  double worst = 1.0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<Lifetime> buffers(7);
    for (Lifetime& b : buffers) {
      b.begin = static_cast<std::int64_t>(random() % 8);
      b.end = b.begin + 1 + static_cast<std::int64_t>(random() % 4);
      b.bytes = 64 * (1 + random() % 6);
    }
    const OffsetPlan plan = planOffsets(buffers, 64);
    expectNoOverlap(buffers, plan);
    const std::size_t optimum = bruteForcePeak(buffers);
    EXPECT_GE(optimum, plan.lowerBound);
    const double ratio = static_cast<double>(plan.peak) / static_cast<double>(optimum);
    if (ratio > worst) {
      worst = ratio;
      worstSeed = seed;
    }
  }
  EXPECT_LE(worst, 1.35) << "seed " << worstSeed;
}

TEST(Offsets, ALifetimeMayReachIntoTheNextRound) {
  // The first lives in [6, ...) and [..., 2): the second meets neither part, the others one each.
  const std::vector<Lifetime> buffers = {{6, 2, 128}, {2, 6, 128}, {1, 3, 64}, {5, 7, 64}};
  const OffsetPlan plan = planOffsets(buffers, 64);
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 0, 128, 128}));
  EXPECT_EQ(plan.peak, 192U);
  EXPECT_EQ(plan.lowerBound, 192U);
  EXPECT_TRUE(buffers[0].covers(0) && buffers[0].covers(9) && !buffers[0].covers(2));
  EXPECT_TRUE(buffers[0].meets({7, 1, 1}));
}

}  // namespace
}  // namespace sluice::schedule
