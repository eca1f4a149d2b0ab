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

/// Each buffer against every one that is placed already: what planOffsets finds with less work.
std::vector<std::size_t> plainOffsets(const std::vector<Lifetime>& buffers, std::size_t alignment) {
  const auto rounded = [&](std::size_t i) {
    return (buffers[i].bytes + alignment - 1) / alignment * alignment;
  };
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const Lifetime& x = buffers[a];
    const Lifetime& y = buffers[b];
    return x.bytes != y.bytes ? x.bytes > y.bytes : x.end - x.begin > y.end - y.begin;
  });
  std::vector<std::size_t> offsets(buffers.size(), 0);
  std::vector<std::size_t> placed;
  for (const std::size_t i : order) {
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (const std::size_t other : placed) {
      if (buffers[other].meets(buffers[i])) {
        taken.emplace_back(offsets[other], offsets[other] + rounded(other));
      }
    }
    std::ranges::sort(taken);
    std::size_t top = 0;
    std::size_t smallest = ~std::size_t{0};
    for (const auto& [begin, end] : taken) {
      if (begin > top && begin - top >= rounded(i) && begin - top < smallest) {
        smallest = begin - top;
        offsets[i] = top;
      }
      top = std::max(top, end);
    }
    offsets[i] = smallest == ~std::size_t{0} ? top : offsets[i];
    if (rounded(i) > 0 && buffers[i].begin != buffers[i].end) {
      placed.push_back(i);
    }
  }
  return offsets;
}

TEST(Offsets, AreThoseOfLookingAtEveryPairOfBuffers) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<Lifetime> buffers(1 + random() % 60);
    const std::uint64_t times = 2 + random() % 40;
    for (Lifetime& b : buffers) {  // some wrap, some have no extent or no bytes
      b.begin = static_cast<std::int64_t>(random() % times);
      b.end = random() % 4 == 0 ? static_cast<std::int64_t>(random() % times)
                                : b.begin + static_cast<std::int64_t>(random() % 6);
      b.bytes = random() % 12 == 0 ? 0 : 1 + random() % 1000;
    }
    EXPECT_EQ(planOffsets(buffers, 64).offsets, plainOffsets(buffers, 64));
  }
}

/// Of a chain of layers: activations that live from the forward of a layer to its backward, a
/// gradient from each layer to the one before, and weight gradients until the end.
std::vector<Lifetime> chainLifetimes(std::int64_t layers) {
  std::vector<Lifetime> buffers;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::int64_t backward = 3 * layers - 1 - i;
    const std::size_t bytes = 64 * (1 + static_cast<std::size_t>(i) % 3);
    buffers.push_back({i, backward + 1, bytes});
    buffers.push_back({backward, backward + 2, bytes});
    buffers.push_back({backward, 4 * layers, 640});
    buffers.push_back({i, i + 1, 4096});
  }
  return buffers;
}

TEST(Offsets, WorkGrowsWithTheNumberOfBuffersNotOfPairs) {
  const std::size_t once = planOffsets(chainLifetimes(1000), 64).looks;
  const std::size_t twice = planOffsets(chainLifetimes(2000), 64).looks;
  EXPECT_LE(static_cast<double>(twice), 2.3 * static_cast<double>(once));
  // Every buffer meets up to a thousand others.
  EXPECT_LE(once, 4000U * 200U);
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
