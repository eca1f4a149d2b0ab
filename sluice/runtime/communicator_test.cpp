#include "sluice/runtime/communicator.h"

#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/registry.h"

namespace sluice::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A rank with a device of its own and memory for 16 numbers on it.
struct Rank {
  Communicator& communicator;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Memory> memory = device->allocate(16 * sizeof(float));
  std::unique_ptr<device::Queue> queue = device->makeQueue();

  device::Address at(std::size_t i) const { return memory->at(i * sizeof(float)); }
  void write(std::size_t i, std::vector<float> values) const {
    device::copyIn(*queue, at(i), values.data(), values.size() * sizeof(float));
  }
  std::vector<float> read(std::size_t i, std::size_t count) const {
    std::vector<float> values(count);
    device::copyOut(*queue, values.data(), at(i), count * sizeof(float));
    return values;
  }
};

/// Runs f on every rank, each in a thread of its own, and gives what it threw.
std::vector<std::string> onAllRanks(std::int32_t size,
                                    const std::string& kind,
                                    const std::function<void(Rank&)>& f) {
  const auto communicators = makeLocalCommunicators(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < errors.size(); ++r) {
    threads.emplace_back([&, r] {
      Rank rank{*communicators[r], devices::makeDevice({.name = {.kind = kind}})};
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
  const auto errors = onAllRanks(2, GetParam(), [](Rank& rank) {
    Communicator& c = rank.communicator;
    if (c.rank() == 1) {
      c.receive(*rank.queue, 0, 8, rank.at(4), 8);
      c.receive(*rank.queue, 0, 7, rank.at(0), 8);
      c.receive(*rank.queue, 0, 7, rank.at(2), 8);
      c.receive(*rank.queue, 0, 9, {}, 0);
      EXPECT_THAT(rank.read(0, 6), ElementsAre(1, 2, 5, 6, 3, 4));
      return;
    }
    rank.write(0, {1, 2, 3, 4});
    std::thread other([&] {
      const auto queue = rank.device->makeQueue();
      c.send(*queue, 1, 8, rank.at(2), 8);
    });
    c.send(*rank.queue, 1, 7, rank.at(0), 8);
    rank.write(0, {5, 6});  // free once it has arrived
    c.send(*rank.queue, 1, 7, rank.at(0), 8);
    c.send(*rank.queue, 1, 9, {}, 0);
    other.join();
  });
  EXPECT_THAT(errors, ElementsAre("", ""));
}

TEST_P(OverKinds, CollectivesAreInTheOrderOfRanks) {
  const auto errors = onAllRanks(3, GetParam(), [](Rank& rank) {
    Communicator& c = rank.communicator;
    const auto r = static_cast<float>(c.rank());
    // In another order, or added up in pairs, 1e8 and -1e8 would swallow the small one or not.
    const std::vector<float> terms = {1e8F, -1e8F, 1.5F};
    rank.write(0, {terms[static_cast<std::size_t>(c.rank())], r});
    c.sum(*rank.queue, 1, rank.at(0), rank.at(2), rank.at(8), DType::F32, 2);
    EXPECT_THAT(rank.read(2, 2), ElementsAre((1e8F + -1e8F) + 1.5F, 3));
    c.gather(*rank.queue, 2, rank.at(1), rank.at(4), sizeof(float));
    EXPECT_THAT(rank.read(4, 3), ElementsAre(0, 1, 2));
    rank.write(4, {10 * r, 10 * r + 1, 10 * r + 2});
    c.scatter(*rank.queue, 1, 3, rank.at(4), rank.at(7), sizeof(float));
    EXPECT_THAT(rank.read(7, 1), ElementsAre(10 + r));
    c.broadcast(*rank.queue, 2, 4, rank.at(4), 2 * sizeof(float));
    EXPECT_THAT(rank.read(4, 2), ElementsAre(20, 21));
  });
  EXPECT_THAT(errors, ElementsAre("", "", ""));
}

INSTANTIATE_TEST_SUITE_P(Communicator, OverKinds, ::testing::Values("cpu", "far"));

TEST(Communicator, RefusesAMessageOfAnotherSizeAndFreesTheSender) {
  const auto errors = onAllRanks(2, "cpu", [](Rank& rank) {
    Communicator& c = rank.communicator;
    if (c.rank() == 0) {
      c.send(*rank.queue, 1, 5, rank.at(0), 8);
      return;
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

TEST(Communicator, RefusesRanksThatAreNotThere) {
  const auto all = makeLocalCommunicators(2);
  const auto device = devices::makeDevice({});
  const auto queue = device->makeQueue();
  EXPECT_THROW(all[0]->send(*queue, 0, 1, {}, 0), InternalError);
  EXPECT_THROW(all[0]->receive(*queue, 2, 1, {}, 0), InternalError);
}

}  // namespace
}  // namespace sluice::runtime
