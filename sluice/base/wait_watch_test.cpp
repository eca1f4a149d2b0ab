#include "sluice/base/wait_watch.h"

#include <thread>

#include <gtest/gtest.h>

namespace sluice {
namespace {

class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex_);
    waitWatched(changed_, lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(WaitWatch, LooksAroundUntilTheWaitIsOver) {
  Gate gate;
  int looks = 0;
  const WaitWatch watch([&] {
    if (++looks == 3) {
      gate.open();  // needs the lock that the wait has
    }
  });
  gate.await();
  EXPECT_EQ(looks, 3);
}

TEST(WaitWatch, IsNotCalledByAWaitThatIsOverAtOnce) {
  Gate gate;
  gate.open();
  int looks = 0;
  const WaitWatch watch([&] { ++looks; });
  gate.await();
  EXPECT_EQ(looks, 0);
}

TEST(WaitWatch, BelongsToItsThread) {
  const WaitWatch watch([] {});
  bool other = true;
  std::thread([&] { other = WaitWatch::isSet(); }).join();
  EXPECT_TRUE(WaitWatch::isSet());
  EXPECT_FALSE(other);
}

TEST(WaitWatch, HidesTheOneBeforeAndGivesWayToIt) {
  int outer = 0;
  int inner = 0;
  const WaitWatch first([&] { ++outer; });
  {
    const WaitWatch second([&] { ++inner; });
    WaitWatch::look();
  }
  WaitWatch::look();
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 1);
}

}  // namespace
}  // namespace sluice
