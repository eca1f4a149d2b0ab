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

TEST(Cores, OfProcessesOnOneMachineAreShared) {
  EXPECT_EQ(coresPerProcess(8, 8, nullptr), 8);
  EXPECT_EQ(coresPerProcess(8, 8, "1"), 8);
  EXPECT_EQ(coresPerProcess(8, 8, "3"), 2);
  EXPECT_EQ(coresPerProcess(2, 2, "4"), 1);
  EXPECT_EQ(coresPerProcess(3, 8, "2"), 3);  // each is bound to cores of its own
  EXPECT_EQ(coresPerProcess(0, 8, "2"), 4);
  EXPECT_EQ(coresPerProcess(0, 0, nullptr), 1);
  EXPECT_EQ(coresPerProcess(4, 4, "many"), 4);
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

TEST(Spin, LeavesAsManyCoresToOthersAsItIsTold) {
  std::vector<std::unique_ptr<Running>> threads;
  while (maySpin(1)) {
    threads.push_back(std::make_unique<Running>());
  }
  EXPECT_TRUE(maySpin());
  int asked = 0;
  const auto ask = [&] { return ++asked > 1; };
  EXPECT_FALSE(spinUntil(ask, 1));
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(spinUntil(ask));
}

}  // namespace
}  // namespace sluice
