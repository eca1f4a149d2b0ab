#include "sluice/runtime/communicator.h"

#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/registry.h"
#include "tests/support/communicator_checks.h"
#include "tests/support/message_of.h"

namespace sluice::runtime {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Rank;

/// Runs f on every rank, each in a thread of its own, and gives what it threw.
std::vector<std::string> onAllRanks(std::int32_t size,
                                    const std::string& kind,
                                    const std::function<void(Rank&)>& f) {
  const auto communicators = makeLocalCommunicators(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < errors.size(); ++r) {
    threads.emplace_back([&, r] {
      Rank rank(*communicators[r], kind);
      try {
        f(rank);
      } catch (const Error& error) {
        errors[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

class OverKinds : public ::testing::TestWithParam<std::string> {};

TEST_P(OverKinds, MessagesArriveInAnyOrderOfTheirNumbers) {
  EXPECT_THAT(onAllRanks(2, GetParam(), testing::checkMessages), ElementsAre("", ""));
}

TEST_P(OverKinds, CollectivesAreInTheOrderOfRanks) {
  EXPECT_THAT(onAllRanks(3, GetParam(), testing::checkCollectives), ElementsAre("", "", ""));
}

TEST_P(OverKinds, SumsAreInTheOrderOfReplicas) {
  for (const std::int32_t size : {2, 3, 4}) {
    EXPECT_THAT(onAllRanks(size, GetParam(), testing::checkSums), Each(""));
  }
}

INSTANTIATE_TEST_SUITE_P(Communicator, OverKinds, ::testing::Values("cpu", "far"));

TEST(Communicator, RefusesAMessageOfAnotherSizeAndFreesTheSender) {
  const auto errors = onAllRanks(2, "cpu", [](Rank& rank) {
    Communicator& c = rank.communicator;
    if (c.rank() == 0) {
      for (;;) {  // until it has to wait
        c.send(*rank.queue, 1, 5, rank.at(0), 8);
      }
    }
    try {
      c.receive(*rank.queue, 0, 5, rank.at(0), 4);
    } catch (const DeviceError& error) {
      c.interrupt("sizes differ");
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("sizes differ"));
  EXPECT_THAT(errors[1], HasSubstr("message 5 from rank 0 to rank 1 has 8 bytes, 4 were expected"));
}

TEST(Communicator, ASenderIsFourMessagesAheadAtMost) {
  const auto all = makeLocalCommunicators(2, std::chrono::milliseconds(1));
  const Rank sender(*all[0], "cpu");
  const Rank receiver(*all[1], "cpu");
  const auto send = [&](int times) {
    for (int i = 0; i < times; ++i) {
      all[0]->send(*sender.queue, 1, 5, sender.at(0), 8);
    }
  };
  send(4);
  EXPECT_FALSE(all[0]->leavesAtOnce(1, 5));
  EXPECT_TRUE(all[0]->leavesAtOnce(1, 6));
  for (int i = 0; i < 2; ++i) {
    all[1]->receive(*receiver.queue, 0, 5, receiver.at(0), 8);
  }
  EXPECT_TRUE(all[0]->leavesAtOnce(1, 5));
  send(2);
  EXPECT_THAT(testing::messageOf<DeviceError>([&] { send(1); }),
              HasSubstr("rank 0 has waited 0 s for rank 1"));
}

TEST(Communicator, WaitsEndWhenItIsInterrupted) {
  const auto errors = onAllRanks(3, "cpu", [](Rank& rank) {
    Communicator& c = rank.communicator;
    if (c.rank() == 0) {
      c.interrupt("enough");
    } else {
      c.receive(*rank.queue, 0, 1, rank.at(0), 4);
    }
  });
  EXPECT_THAT(errors, ElementsAre("", HasSubstr("enough"), HasSubstr("enough")));
}

TEST(Communicator, AWaitHasADeadline) {
  const auto all = makeLocalCommunicators(2, std::chrono::milliseconds(1));
  EXPECT_THAT(testing::messageOf<DeviceError>([&] { all[0]->take(1, 3); }),
              HasSubstr("rank 0 has waited 0 s for rank 1, which lives and sends nothing"));
}

TEST(Communicator, AWaitLooksAroundAndEndsIfThatFails) {
  const auto all = makeLocalCommunicators(2);
  int looks = 0;
  const auto posts = [&] {
    if (++looks == 2) {
      all[1]->post(0, 3, MessageBytes(7));
    }
  };
  EXPECT_EQ(all[0]->take(1, 3, posts).size(), 7U);
  EXPECT_EQ(looks, 2);
  const auto fails = [] { raise<Cancelled>("the call was cancelled"); };
  EXPECT_THROW(all[0]->take(1, 3, fails), Cancelled);
}

TEST(Communicator, NobodyWaitsForARankThatHasLeft) {
  Inbox inbox;
  inbox.deliver({1, 0, 3}, MessageBytes(2));
  inbox.leave(1);
  EXPECT_EQ(inbox.take({1, 0, 3}, 0, kPatience).size(), 2U);  // what came before is there
  EXPECT_THAT(testing::messageOf<DeviceError>([&] {
                inbox.take({1, 0, 3}, 0, kPatience);
              }),
              HasSubstr("rank 1 has ended, and rank 0 waits for a message from it"));
}

TEST(Communicator, RefusesRanksThatAreNotThere) {
  const auto all = makeLocalCommunicators(2);
  const auto device = devices::makeDevice({});
  const auto queue = device->makeQueue();
  EXPECT_THROW(all[0]->send(*queue, 0, 1, {}, 0), InternalError);
  EXPECT_THROW(all[0]->receive(*queue, 2, 1, {}, 0), InternalError);
}

}  // namespace
}  // namespace sluice::runtime
