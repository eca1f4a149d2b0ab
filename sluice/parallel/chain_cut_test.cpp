#include "sluice/parallel/chain_cut.h"

#include <functional>
#include <limits>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace sluice::parallel {
namespace {

/// What a cut comes to, counted item by item.
struct Counted {
  double work = 0;  ///< of the largest part, over its share
  double bytes = 0;
  std::int64_t crossing = 0;
  bool allowed = true;
};

Counted count(const std::vector<ChainItem>& items,
              const std::vector<std::int32_t>& parts,
              const std::vector<double>& shares) {
  std::vector<double> work(shares.size());
  std::vector<double> bytes(shares.size());
  Counted counted;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto part = static_cast<std::size_t>(parts[i]);
    work[part] += static_cast<double>(items[i].work) / shares[part];
    bytes[part] += static_cast<double>(items[i].bytes);
    for (const ChainItem::Shared& shared : items[i].shared) {
      const bool again = shared.next < items.size() && parts[shared.next] == parts[i];
      bytes[part] += again ? 0.0 : static_cast<double>(shared.bytes);
    }
    if (i + 1 < items.size() && parts[i + 1] != parts[i]) {
      counted.crossing += items[i].crossing;
      counted.allowed = counted.allowed && items[i].mayCut;
    }
  }
  for (std::size_t p = 0; p < shares.size(); ++p) {
    counted.work = std::max(counted.work, work[p]);
    counted.bytes = std::max(counted.bytes, bytes[p]);
  }
  return counted;
}

void forEachCut(std::size_t items,
                std::size_t parts,
                const std::function<void(const std::vector<std::int32_t>&)>& visit) {
  std::vector<std::int32_t> cut(items, 0);
  const std::function<void(std::size_t)> extend = [&](std::size_t i) {
    if (i == items) {
      if (static_cast<std::size_t>(cut.back()) + 1 == parts) {
        visit(cut);
      }
      return;
    }
    for (const std::int32_t step : {0, 1}) {
      cut[i] = cut[i - 1] + step;
      if (static_cast<std::size_t>(cut[i]) < parts) {
        extend(i + 1);
      }
    }
  };
  extend(1);
}

std::vector<ChainItem> randomChain(std::mt19937_64& random, std::size_t length) {
  const auto number = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  std::vector<ChainItem> items(length);
  std::size_t reader = length;
  for (std::size_t i = length; i-- > 0;) {
    items[i] = {.work = 1 + number(20),
                .bytes = number(9),
                .shared = {},
                .crossing = number(50),
                .mayCut = number(9) > 0};
    if (number(2) == 0) {
      items[i].shared.push_back({7, reader});
      reader = i;
    }
  }
  return items;
}

/// Against all cuts: nearly even, within the bytes where a budget is given, and of those the one
/// with the fewest bytes across.
TEST(CutChain, FindsTheNarrowestOfTheNearlyEvenCuts) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::vector<ChainItem> items = randomChain(random, 9);
    const std::vector<double> shares =
        round % 2 == 0 ? std::vector{1.0 / 3, 1.0 / 3, 1.0 / 3} : std::vector{0.5, 0.3, 0.2};
    const std::int64_t budget = round % 3 == 0 ? 30 : 0;
    double leastBytes = std::numeric_limits<double>::infinity();
    forEachCut(items.size(), 3, [&](const auto& cut) {
      const Counted counted = count(items, cut, shares);
      leastBytes = counted.allowed ? std::min(leastBytes, counted.bytes) : leastBytes;
    });
    const double cap =
        budget == 0 ? std::numeric_limits<double>::infinity() : std::max(leastBytes, 0.8 * 30);
    double even = std::numeric_limits<double>::infinity();
    forEachCut(items.size(), 3, [&](const auto& cut) {
      const Counted counted = count(items, cut, shares);
      even = counted.allowed && counted.bytes <= cap ? std::min(even, counted.work) : even;
    });
    auto narrowest = std::numeric_limits<std::int64_t>::max();
    forEachCut(items.size(), 3, [&](const auto& cut) {
      const Counted counted = count(items, cut, shares);
      if (counted.allowed && counted.bytes <= cap && counted.work <= 1.1 * even) {
        narrowest = std::min(narrowest, counted.crossing);
      }
    });
    if (even == std::numeric_limits<double>::infinity()) {
      continue;  // too few places to cut
    }
    const Counted found = count(items, cutChain(items, shares, budget), shares);
    EXPECT_TRUE(found.allowed);
    EXPECT_LE(found.bytes, cap);
    EXPECT_LE(found.work, 1.1 * even * (1 + 1e-12));
    EXPECT_EQ(found.crossing, narrowest) << "round " << round;
  }
}

TEST(CutChain, GivesFewerPartsWhereItMayNotCut) {
  std::vector<ChainItem> items(4);
  items[0].mayCut = items[2].mayCut = false;
  EXPECT_EQ(cutChain(items, std::vector{0.25, 0.25, 0.25, 0.25}),
            (std::vector<std::int32_t>{0, 0, 1, 1}));
  items[1].mayCut = false;
  EXPECT_EQ(cutChain(items, std::vector{0.5, 0.5}), (std::vector<std::int32_t>{0, 0, 0, 0}));
}

/// Parts that are looked at to cut even items over the devices.
std::size_t looksFor(std::size_t items, std::size_t devices) {
  std::size_t looks = 0;
  const std::vector<double> shares(devices, 1.0 / static_cast<double>(devices));
  const std::vector<ChainItem> chain(items, ChainItem{.work = 100, .bytes = 100});
  const std::vector<std::int32_t> parts = cutChain(chain, shares, 1000, &looks);
  EXPECT_EQ(static_cast<std::size_t>(parts.back()) + 1, std::min(items, devices));
  return looks;
}

TEST(CutChain, LooksAtNoMoreThanItemsTimesItems) {
  // Three runs look at parts of up to twice the even length, on every device that can have them.
  for (const std::size_t devices : {2U, 10U, 100U, 250U, 499U, 500U}) {
    EXPECT_LE(looksFor(500, devices), 6U * 500 * 500) << devices << " devices";
  }
}

TEST(CutChain, TakesNoLongerForDevicesThatItCannotUse) {
  EXPECT_EQ(looksFor(19, 2000), looksFor(19, 19));
  EXPECT_EQ(mostParts(std::vector<ChainItem>(19)), 19U);
  EXPECT_EQ(mostParts({}), 0U);
}

/// Where one item has nearly all of the work, parts of any length count as even.
TEST(CutChain, LooksAtFewerThanAllPartsOfUnevenItems) {
  constexpr std::size_t kItems = 300;
  std::vector<ChainItem> items(kItems);
  items[kItems / 2].work = 1'000'000;
  const std::vector<double> shares(200, 1.0 / 200);
  std::size_t looks = 0;
  EXPECT_EQ(cutChain(items, shares, 0, &looks).back(), 199);
  EXPECT_LE(looks, kItems * kItems * 200 / 4);
}

}  // namespace
}  // namespace sluice::parallel
