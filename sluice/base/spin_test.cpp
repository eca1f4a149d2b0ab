#include "sluice/base/spin.h"

#include <atomic>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Cores, OfAControlGroupAreItsQuotaRoundedUp) {
  EXPECT_EQ(coresOfQuota("200000 100000"), 2);
  EXPECT_EQ(coresOfQuota("150000 100000\n"), 2);
  EXPECT_EQ(coresOfQuota("1000 100000"), 1);
  for (const char* text :
       {"max 100000", "", "100000", "0 100000", "100000 0", "-1 100000", "x y"}) {
    EXPECT_EQ(coresOfQuota(text), 0) << text;
  }
  EXPECT_GE(availableCores(), 1);
}

TEST(Spin, EndsWhenItIsOverAndGivesUpAfterAWhile) {
  int asked = 0;
  EXPECT_TRUE(spinUntil([&] { return ++asked == 1; }));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(spinUntil([] { return false; }));
}

TEST(Spin, AsksOnlyOnceWhileTheThreadsAreMoreThanTheCores) {
  std::vector<std::unique_ptr<Running>> threads;
  while (maySpin()) {
    threads.push_back(std::make_unique<Running>());
  }
  EXPECT_LE(threads.size(), static_cast<std::size_t>(availableCores()) + 1);
  int asked = 0;
  EXPECT_FALSE(spinUntil([&] {
    ++asked;
    return false;
  }));
  EXPECT_EQ(asked, 1);
  {
    const Sleeping one;
    EXPECT_TRUE(maySpin());
  }
  EXPECT_FALSE(maySpin());
}

}  // namespace
}  // namespace sluice
