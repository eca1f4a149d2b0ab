// Post offices of two ranks in one process, over a transport that is a pair of lists.
#include "sluice/runtime/post_office.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "tests/support/address_space.h"
#include "tests/support/message_of.h"

namespace sluice::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Sent {
  int from = 0;
  std::vector<std::byte> bytes;
};
struct Wire {
  std::mutex mutex;
  std::array<std::deque<Sent>, 2> messages;  // by receiver
  std::vector<std::size_t> sizes;            // of all messages to rank 1
  std::atomic<bool> stuck = false;           // messages of rank 0 are never done
  std::set<std::thread::id> lookers;         // threads that have asked for messages of rank 0
  std::thread::id receiver;                  // the one that has received the last of them
  std::condition_variable looked;
  std::atomic<bool> breaks = false;  // rank 0 fails when it asks for messages, once
};
Wire& wire() {
  static Wire made;
  return made;
}

/// What rank Me calls.
template <int Me>
mpi::Transport fakeTransport() {
  static int request = 0;
  static int received = 0;
  return {.version = mpi::kTransportVersion,
          .open = nullptr,
          .send = [](const void* data, std::size_t bytes, int to) -> void* {
            const auto* begin = static_cast<const std::byte*>(data);
            const std::scoped_lock lock(wire().mutex);
            wire().messages[static_cast<std::size_t>(to)].push_back({Me, {begin, begin + bytes}});
            if (to == 1) {
              wire().sizes.push_back(bytes);
            }
            return &request;
          },
          .probe =
              [](int* from, std::size_t* bytes, void** message) {
                if (Me == 0 && wire().breaks.exchange(false)) {
                  raise<InternalError>("the wire is broken");
                }
                const std::scoped_lock lock(wire().mutex);
                if (Me == 0) {
                  wire().lookers.insert(std::this_thread::get_id());
                  wire().looked.notify_all();
                }
                std::deque<Sent>& mine = wire().messages[Me];
                if (mine.empty()) {
                  return 0;
                }
                auto* found = new Sent(std::move(mine.front()));
                mine.pop_front();
                *from = found->from;
                *bytes = found->bytes.size();
                *message = found;
                return 1;
              },
          .receive = [](void* message, void* to, std::size_t bytes) -> void* {
            const std::unique_ptr<Sent> found(static_cast<Sent*>(message));
            std::memcpy(to, found->bytes.data(), bytes);
            if (Me == 0) {
              const std::scoped_lock lock(wire().mutex);
              wire().receiver = std::this_thread::get_id();
            }
            return &received;
          },
          .test = [](void* asked) { return Me == 0 && asked == &request && wire().stuck ? 0 : 1; },
          .close = nullptr};
}

constexpr std::chrono::seconds kLong{60};

struct Offices {
  explicit Offices(std::chrono::milliseconds timeout) {
    wire().messages = {};
    wire().sizes = {};
    wire().stuck = false;
    wire().breaks = false;
    wire().lookers = {};
    ranks[0] = std::make_unique<PostOffice>(transports[0], 0, 2, timeout);
    ranks[1] = std::make_unique<PostOffice>(transports[1], 1, 2, timeout);
  }
  std::array<mpi::Transport, 2> transports = {fakeTransport<0>(), fakeTransport<1>()};
  std::array<std::unique_ptr<PostOffice>, 2> ranks;
};

TEST(PostOffice, RefusesOtherVersionsInAllRanks) {
  const Offices offices(kLong);
  std::array<std::string, 2> errors;
  const auto introduce = [&](std::size_t rank, const char* version) {
    errors[rank] = testing::messageOf<DeviceError>([&] {
      offices.ranks[rank]->introduce({version, "here", 7});
    });
  };
  std::thread other([&] { introduce(1, "0.2.0"); });
  introduce(0, "0.1.0");
  other.join();
  for (const std::string& error : errors) {
    EXPECT_THAT(error,
                AllOf(HasSubstr("different versions of Sluice"),
                      HasSubstr("rank 0 has 0.1.0"),
                      HasSubstr("rank 1 has 0.2.0")));
  }
}

/// Introduces both ranks.
void introduce(const Offices& offices) {
  std::thread other([&] { offices.ranks[1]->introduce({"0.1.0", "there", 42}); });
  offices.ranks[0]->introduce({"0.1.0", "here", 41});
  other.join();
}

TEST(PostOffice, NamesARankThatGivesNoSignOfLife) {
  Offices offices(std::chrono::milliseconds(200));
  introduce(offices);
  offices.ranks[1].reset();  // without a word
  EXPECT_THAT(testing::messageOf<DeviceError>([&] {
                offices.ranks[0]->inbox().take({1, 0, 5}, 0, kLong);
              }),
              HasSubstr("rank 1 (process 42 on host there) is lost"));
  EXPECT_FALSE(offices.ranks[0]->sayGoodbye());
}

TEST(PostOffice, TellsAllRanksWhyTheyEnd) {
  const Offices offices(kLong);
  offices.ranks[1]->interrupt("a cable was cut");
  EXPECT_THAT(testing::messageOf<DeviceError>([&] {
                offices.ranks[0]->inbox().take({1, 0, 5}, 0, kLong);
              }),
              HasSubstr("a cable was cut"));
}

MessageBytes bytesOf(std::int64_t number) {
  MessageBytes bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

/// Posts numbers to the other rank and takes those that it posts, now one and now three at a time.
void exchange(PostOffice& office, std::int64_t key, std::int64_t rounds) {
  const std::int32_t other = 1 - office.rank();
  std::int64_t taken = 0;
  for (std::int64_t posted = 0; posted < rounds;) {
    for (std::int64_t i = 0; i < 1 + 2 * (posted % 2); ++i, ++posted) {
      office.post(other, 0, key, bytesOf(1000 * key + posted));
    }
    for (; taken < posted; ++taken) {
      ASSERT_EQ(office.take({other, 0, key}, kLong), bytesOf(1000 * key + taken));
    }
  }
}

TEST(PostOffice, EachOfManyThreadsGetsItsMessagesInOrder) {
  const Offices offices(kLong);
  introduce(offices);
  std::vector<std::thread> threads;
  for (std::int64_t key = 0; key < 4; ++key) {
    for (const auto& office : offices.ranks) {
      threads.emplace_back([&office, key] { exchange(*office, key, 300); });
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(wire().messages[0].empty());
  EXPECT_TRUE(wire().messages[1].empty());
}

TEST(PostOffice, WhoWaitsReceivesItsMessageItself) {
  const Offices offices(kLong);
  introduce(offices);
  std::thread waits([&] {
    EXPECT_EQ(offices.ranks[0]->take({1, 0, 5}, kLong), bytesOf(7));
    const std::scoped_lock lock(wire().mutex);
    EXPECT_EQ(wire().receiver, std::this_thread::get_id());
  });
  {
    std::unique_lock lock(wire().mutex);
    EXPECT_TRUE(wire().looked.wait_for(lock, kLong, [&] {
      return wire().lookers.contains(waits.get_id());
    })) << "the office looks after messages for those who wait";
  }
  offices.ranks[1]->post(0, 0, 5, bytesOf(7));
  waits.join();
}

TEST(PostOffice, LongMessagesAreCutForThoseWhoCannotBeRung) {
  const Offices offices(kLong);
  const auto sizesOf = [&](std::size_t bytes) {
    {
      const std::scoped_lock lock(wire().mutex);
      wire().sizes.clear();
    }
    MessageBytes sent(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      sent[i] = static_cast<std::byte>(i % 251);
    }
    offices.ranks[0]->post(1, 0, 3, copyOf(sent));
    EXPECT_EQ(offices.ranks[1]->take({0, 0, 3}, kLong), sent);
    const std::scoped_lock lock(wire().mutex);
    return std::vector(wire().sizes.begin() + 1, wire().sizes.end());  // after the header
  };
  EXPECT_THAT(sizesOf(150'000), ::testing::ElementsAre(61'440, 61'440, 27'120));
  introduce(offices);
  EXPECT_THAT(sizesOf(150'000), ::testing::ElementsAre(150'000));
}

/// As rank 1 would send it, without a body.
void arrive(const MailHeader& header) {
  const auto* begin = reinterpret_cast<const std::byte*>(&header);
  const std::scoped_lock lock(wire().mutex);
  wire().messages[0].push_back({1, {begin, begin + sizeof(header)}});
}

TEST(PostOffice, AMessageThatHasNoRoomEndsTheWaitsOfAllRanks) {
  if (!testing::kCanLimitAddressSpace) {
    GTEST_SKIP() << "sanitizers end a process that asks for too much";
  }
  const Offices offices(kLong);
  introduce(offices);
  arrive({.kind = MailKind::Data, .number = 5, .bytes = std::int64_t{1} << 60});
  arrive({.kind = MailKind::Data, .number = 6, .bytes = 0, .inlined = 1});  // of its body
  const auto errorOf = [&](std::size_t rank) {
    const auto other = static_cast<std::int32_t>(1 - rank);
    return testing::messageOf<DeviceError>([&] {
      offices.ranks[rank]->take({other, 0, 5}, kLong);
    });
  };
  const char* const reason = "no memory for a message of 1152921504606846976 bytes from rank 1";
  EXPECT_THAT(errorOf(0), HasSubstr(reason));
  EXPECT_THAT(errorOf(1), HasSubstr(reason));
  EXPECT_FALSE(offices.ranks[0]->inbox().has({1, 0, 6}));
}

/// Nobody waits at rank 0, whose thread is at the desk.
TEST(PostOffice, WhatGoesWrongAtTheDeskOfTheOfficeIsHeard) {
  const Offices offices(kLong);
  introduce(offices);
  wire().breaks = true;
  EXPECT_THAT(
      testing::messageOf<DeviceError>([&] {
        offices.ranks[1]->inbox().take({0, 0, 5}, 1, kLong);
      }),
      AllOf(HasSubstr("rank 0 cannot look after its messages"), HasSubstr("the wire is broken")));
}

TEST(PostOffice, AWaitHasADeadlineAlsoAtTheDesk) {
  const Offices offices(kLong);
  EXPECT_THAT(testing::messageOf<DeviceError>([&] {
                offices.ranks[0]->take({1, 0, 5}, std::chrono::milliseconds(1));
              }),
              HasSubstr("rank 0 has waited 0 s for rank 1"));
}

TEST(PostOffice, RanksLeaveTogether) {
  const Offices offices(kLong);
  bool other = false;
  std::thread leaving([&] { other = offices.ranks[1]->sayGoodbye(); });
  EXPECT_TRUE(offices.ranks[0]->sayGoodbye());
  leaving.join();
  EXPECT_TRUE(other);
}

TEST(PostOffice, ARankThatHasLeftAndIsKilledIsNotWaitedForForEver) {
  const Offices offices(std::chrono::milliseconds(200));
  wire().stuck = true;  // as if rank 1 were killed after its last word
  std::thread leaving([&] { EXPECT_TRUE(offices.ranks[1]->sayGoodbye()); });
  EXPECT_FALSE(offices.ranks[0]->sayGoodbye());
  leaving.join();
}

TEST(Doorbell, IsRungByOthersAndByItself) {
  const Doorbell one;
  const Doorbell other;
  EXPECT_NE(one.address(), other.address());
  EXPECT_TRUE(one.reaches(other.address()));
  EXPECT_FALSE(one.sleep(std::chrono::microseconds(0)));
  EXPECT_TRUE(one.ring(other.address()));
  EXPECT_TRUE(other.ring(other.address()));
  EXPECT_TRUE(other.sleep(kLong));
  EXPECT_FALSE(other.sleep(std::chrono::microseconds(0)));  // both rings were heard
  EXPECT_FALSE(one.sleep(std::chrono::microseconds(0)));
}

TEST(Doorbell, CannotBeRungWhereItIsNot) {
  const Doorbell one;
  std::string gone;
  {
    const Doorbell other;
    gone = other.address();
  }
  EXPECT_FALSE(one.ring(gone));
  EXPECT_FALSE(one.reaches("another machine/net:[1] 00001"));
}

TEST(Doorbell, ManyRingsDoNotStopTheRinger) {
  const Doorbell one;
  const Doorbell other;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(one.ring(other.address()));
  }
  EXPECT_TRUE(other.sleep(kLong));
}

}  // namespace
}  // namespace sluice::runtime
