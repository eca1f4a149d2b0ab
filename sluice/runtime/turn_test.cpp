#include "sluice/runtime/turn.h"

#include <future>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/base/wait_watch.h"
#include "tests/support/message_of.h"

namespace sluice::runtime {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Until so many callers wait; they need nothing but time for it.
void awaitWaiting(const Turn& turn, std::uint64_t callers) {
  while (turn.waiting() < callers) {
    std::this_thread::yield();
  }
}

TEST(Turns, GoToCallersInTheOrderInWhichTheyAsked) {
  const auto turn = std::make_shared<Turn>();
  std::vector<int> order;  // guarded by the turn
  std::vector<std::thread> callers;
  {
    const Turn::Hold first(turn);
    for (int i = 0; i < 5; ++i) {
      callers.emplace_back([&, i] {
        const Turn::Hold hold(turn);
        order.push_back(i);
      });
      awaitWaiting(*turn, static_cast<std::uint64_t>(i) + 1);
    }
    EXPECT_TRUE(order.empty());
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

TEST(Turns, AreRefusedToWhoLooksAroundWhileTheCallWaitsForThem) {
  const auto turn = std::make_shared<Turn>();
  std::promise<std::string> seen;
  std::thread caller;
  {
    const Turn::Hold first(turn);
    caller = std::thread([&] {
      bool looked = false;
      const WaitWatch watch([&] {
        if (!std::exchange(looked, true)) {
          seen.set_value(messageOf<InvalidArgument>([&] { const Turn::Hold again(turn); }));
        }
      });
      const Turn::Hold hold(turn);
    });
    EXPECT_THAT(seen.get_future().get(), HasSubstr("signal handler"));
  }
  caller.join();
  EXPECT_EQ(turn->waiting(), 0U);
}

TEST(Turns, AreTakenAgainByTheThreadThatHasThem) {
  const auto turn = std::make_shared<Turn>();
  int other = 0;
  std::thread caller;
  {
    const Turn::Hold outer(turn);
    { const Turn::Hold inner(turn); }
    caller = std::thread([&] {
      const Turn::Hold hold(turn);
      ++other;
    });
    awaitWaiting(*turn, 1);
    EXPECT_EQ(other, 0);  // the inner one gave nothing away
  }
  caller.join();
  EXPECT_EQ(other, 1);
}

TEST(Turns, AreHandedToAnotherThreadBeforeAllWhoWait) {
  const auto turn = std::make_shared<Turn>();
  std::vector<int> order;
  std::thread waits;
  std::shared_ptr<Turn::Baton> baton;
  {
    Turn::Hold mine(turn);
    waits = std::thread([&] {
      const Turn::Hold hold(turn);
      order.push_back(2);
    });
    awaitWaiting(*turn, 1);
    baton = Turn::handOver(std::move(mine));
  }
  std::thread takesOn([&] {
    const Turn::Hold hold = baton->takeOn();
    order.push_back(1);
  });
  takesOn.join();
  waits.join();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(Turns, ComeBackWhenNobodyTakesThemOn) {
  const auto turn = std::make_shared<Turn>();
  {
    Turn::Hold mine(turn);
    Turn::handOver(std::move(mine));
  }
  const Turn::Hold again(turn);  // would wait for ever
  EXPECT_EQ(turn->waiting(), 0U);
}

TEST(Turns, AreRefusedToThoseForWhomTheOwnerWaits) {
  const auto turn = std::make_shared<Turn>();
  const auto other = std::make_shared<Turn>();
  const auto take = [](const std::shared_ptr<Turn>& t) {
    return messageOf([&] { const Turn::Hold hold(t); });
  };
  const Turn::Hold mine(turn);
  std::thread worker([&] {
    const std::vector<Turn::Mark> marks{{turn.get()}};
    const Turn::Work work(marks);
    EXPECT_THAT(take(turn), HasSubstr("running step"));
    EXPECT_THAT(take(other), HasSubstr("nothing thrown"));
    // A step of another model that this one's function waits for.
    std::vector<Turn::Mark> both(Turn::Work::current().begin(), Turn::Work::current().end());
    both.push_back({other.get()});
    std::thread inner([&] {
      const Turn::Work innerWork(both);
      EXPECT_THAT(take(turn), HasSubstr("running step"));
      EXPECT_THAT(take(other), HasSubstr("running step"));
    });
    inner.join();
  });
  worker.join();
  EXPECT_TRUE(Turn::Work::current().empty());
}

TEST(Turns, AreTakenAgainByTheOwnerButByNoneForWhomItWaits) {
  const auto turn = std::make_shared<Turn>();
  const auto take = [&] { return messageOf([&] { const Turn::Hold hold(turn); }); };
  const Turn::Hold mine(turn);
  const std::vector<Turn::Mark> marks{{turn.get(), 0, std::this_thread::get_id()}};
  const Turn::Work work(marks);
  EXPECT_EQ(take(), "nothing thrown");
  std::thread helper([&] {
    const Turn::Work helps(marks);
    EXPECT_THAT(take(), HasSubstr("the capture of a model"));
  });
  helper.join();
}

TEST(Turns, AreRefusedToAThreadThatWasLeftAloneAsLongAsTheOwnerHasThem) {
  const auto turn = std::make_shared<Turn>();
  const auto take = [&] { return messageOf([&] { const Turn::Hold hold(turn); }); };
  std::vector<Turn::Mark> handedOn;
  {
    const Turn::Hold mine(turn);
    std::thread worker([&] {
      const std::vector<Turn::Mark> marks{{turn.get()}};
      const Turn::Work work(marks);
      handedOn = Turn::Work::handedOn();
    });
    worker.join();
    std::thread alone([&] {
      const Turn::Work work(handedOn);
      EXPECT_TRUE(turn->isWaitingForThisThread());
      EXPECT_THAT(take(), HasSubstr("running step"));
    });
    alone.join();
  }
  const Turn::Work work(handedOn);
  EXPECT_FALSE(turn->isWaitingForThisThread());
  EXPECT_EQ(take(), "nothing thrown");
}

TEST(Turns, AreGivenBackByAHoldThatCannotBeHandedOver) {
  const auto turn = std::make_shared<Turn>();
  {
    const Turn::Hold outer = Turn::Hold::scope(turn);
    Turn::Hold inner(turn);
    EXPECT_FALSE(inner.isOnly());
    EXPECT_THROW(Turn::handOver(std::move(inner)), InternalError);
    EXPECT_TRUE(outer.isOnly());
  }
  std::thread other([&] { const Turn::Hold hold(turn); });  // would wait for ever
  other.join();
}

TEST(Turns, HaveNothingToCancelBetweenTheCallsOfAScope) {
  const auto turn = std::make_shared<Turn>();
  const int mine = 0;
  const Turn::Hold scope = Turn::Hold::scope(turn);
  EXPECT_FALSE(turn->cancel(&mine));
  {
    const Turn::Hold call(turn, &mine);
    EXPECT_TRUE(turn->cancel(&mine));
    EXPECT_TRUE(turn->isCancelled());
  }
  EXPECT_FALSE(turn->cancel(&mine));
  EXPECT_FALSE(turn->isCancelled());
}

TEST(Turns, AreCancelledForTheCallerThatHasThemOnly) {
  const auto turn = std::make_shared<Turn>();
  int stopped = 0;
  turn->onCancel([&] { ++stopped; });
  const int mine = 0;
  const int other = 0;
  EXPECT_FALSE(turn->cancel(&mine));  // nobody has it
  {
    const Turn::Hold outer(turn, &mine);
    const Turn::Hold inner(turn, &other);  // of the same call
    EXPECT_FALSE(turn->cancel(&other));
    EXPECT_FALSE(turn->isCancelled());
    EXPECT_TRUE(turn->cancel(&mine));
    EXPECT_TRUE(turn->isCancelled());
    EXPECT_EQ(stopped, 1);
  }
  const Turn::Hold next(turn, &mine);
  EXPECT_FALSE(turn->isCancelled());
}

}  // namespace
}  // namespace sluice::runtime
