// Devices that copy to each other without the host, played by threads: the bits are those of the
// way through the host, and every wait has an end.
#include "sluice/runtime/peer_paths.h"

#include <array>
#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/runtime/communicator.h"
#include "tests/support/communicator_checks.h"
#include "tests/support/fake_peers.h"
#include "tests/support/message_of.h"

namespace sluice::runtime {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakePeers;
using testing::FakePort;
using ::testing::HasSubstr;
using testing::PortedQueue;
using testing::Rank;

/// Where the devices of the ranks are; "": the device cannot copy to others by itself.
using Places = std::vector<std::string>;

std::unique_ptr<device::Queue> portedQueue(Rank& rank, FakePort* port) {
  std::unique_ptr<device::Queue> own = rank.device->makeQueue();
  return port == nullptr ? std::move(own) : std::make_unique<PortedQueue>(std::move(own), *port);
}

using Play = std::function<void(Rank& rank, FakePort* port)>;

/// Runs f on a rank for each place, each in a thread of its own, and gives what it threw. A rank
/// that fails tells all others, as an engine does.
std::vector<std::string> onPlaces(FakePeers& peers,
                                  const Places& places,
                                  const std::string& kind,
                                  const Play& f) {
  const auto communicators = makeLocalCommunicators(static_cast<std::int32_t>(places.size()));
  std::vector<std::string> errors(places.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < places.size(); ++r) {
    threads.emplace_back([&, r] {
      communicators[r]->connectDevices();
      FakePort port(peers, places[r]);
      FakePort* const own = places[r].empty() ? nullptr : &port;
      Rank rank(*communicators[r], kind);
      rank.queue = portedQueue(rank, own);
      try {
        f(rank, own);
      } catch (const DeviceError& error) {
        errors[r] = error.what();
        communicators[r]->interrupt(error.what());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

class ConnectedKinds : public ::testing::TestWithParam<std::string> {};

TEST_P(ConnectedKinds, HaveTheBitsOfTheWayThroughTheHost) {
  FakePeers peers;
  const auto checks = [](Rank& rank, FakePort*) {
    testing::checkMessages(rank);
    testing::checkSums(rank);
    testing::checkCollectives(rank);
  };
  EXPECT_THAT(onPlaces(peers, {"a", "b", "c"}, GetParam(), checks), Each(""));
  EXPECT_EQ(peers.copies.load(), 2 + 9);  // two of the messages; one queue has no port
  EXPECT_EQ(peers.groups.load(), 2);      // of two ranks and of three
  EXPECT_EQ(peers.usedTwice.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(PeerPaths, ConnectedKinds, ::testing::Values("cpu", "far"));

TEST(PeerPaths, BytesGoThroughTheHostWhereADeviceCannot) {
  for (const Places& places : {Places{"a", ""}, Places{"", "b"}, Places{"a", "a"}}) {
    FakePeers peers;
    const auto checks = [](Rank& rank, FakePort*) {
      testing::checkMessages(rank);
      testing::checkCollectives(rank);
    };
    EXPECT_THAT(onPlaces(peers, places, "cpu", checks), Each(""));
    EXPECT_EQ(peers.copies.load(), 0);
  }
}

TEST(PeerPaths, LanesOfBothDirectionsKeepTheirMessages) {
  FakePeers peers;
  constexpr int kRounds = 40;
  const auto errors = onPlaces(peers, {"a", "b", "c"}, "cpu", [](Rank& rank, FakePort* port) {
    const std::int32_t me = rank.communicator.rank();
    std::vector<std::thread> lanes;
    for (std::int32_t lane = 0; lane < 4; ++lane) {  // a ring in each direction, twice
      const std::int32_t step = lane % 2 == 0 ? 1 : 2;
      const std::int32_t to = (me + step) % 3;
      const std::int32_t from = (me + 3 - step) % 3;
      for (const bool sends : {true, false}) {
        lanes.emplace_back([&rank, port, sends, lane, to, from, me] {
          const auto queue = portedQueue(rank, port);
          const auto memory = rank.device->allocate(64);
          for (int i = 0; i < kRounds; ++i) {
            const std::size_t bytes = sizeof(int) * static_cast<std::size_t>(1 + lane);
            std::vector<int> values(static_cast<std::size_t>(1 + lane), 1000 * me + 10 * i + lane);
            if (sends) {
              device::copyIn(*queue, memory->at(), values.data(), bytes);
              rank.communicator.send(*queue, to, lane, memory->at(), bytes);
              continue;
            }
            rank.communicator.receive(*queue, from, lane, memory->at(), bytes);
            device::copyOut(*queue, values.data(), memory->at(), bytes);
            EXPECT_THAT(values, Each(1000 * from + 10 * i + lane));
          }
        });
      }
    }
    for (std::thread& lane : lanes) {
      lane.join();
    }
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(peers.copies.load(), 3 * 4 * kRounds);
  EXPECT_EQ(peers.groups.load(), 3);
  EXPECT_EQ(peers.usedTwice.load(), 0);
}

/// Rank 0 sends rank 1 a message.
void sendOne(Rank& rank, FakePort*) {
  if (rank.communicator.rank() == 0) {
    rank.communicator.send(*rank.queue, 1, 5, rank.at(0), 8);
  } else {
    rank.communicator.receive(*rank.queue, 0, 5, rank.at(0), 8);
  }
}

TEST(PeerPaths, AnErrorOfACopyIsThatOfAllRanks) {
  FakePeers peers;
  peers.onCopy = [](int) { raise<DeviceError>("NCCL: ncclSend failed: a cable was cut"); };
  const auto errors = onPlaces(peers, {"a", "b"}, "cpu", sendOne);
  EXPECT_THAT(errors[0], HasSubstr("ncclSend failed: a cable was cut"));
  EXPECT_THAT(errors[1], AllOf(HasSubstr("told to stop"), HasSubstr("a cable was cut")));
  EXPECT_EQ(peers.ended.load(), 1);  // within the copy
}

TEST(PeerPaths, AnErrorWhileJoiningIsThatOfAllRanks) {
  class Broken final : public device::PeerPort {
    std::string place() const override { return "b"; }
    Invitation invite() override { return {}; }
    std::unique_ptr<device::PeerGroup> join(const Invitation&,
                                            std::int32_t,
                                            std::int32_t,
                                            device::PeerWait) override {
      raise<DeviceError>("libnccl.so.2 is not there");
    }
  };
  FakePeers peers;
  const auto errors = onPlaces(peers, {"a", "b"}, "cpu", [](Rank& rank, FakePort* port) {
    Broken broken;
    if (rank.communicator.rank() == 1) {
      rank.queue = std::make_unique<PortedQueue>(rank.device->makeQueue(), broken);
    }
    sendOne(rank, port);
  });
  EXPECT_THAT(errors, Each(HasSubstr("libnccl.so.2 is not there")));
}

TEST(PeerPaths, AWaitOnADeviceEndsWhenTheRanksAreInterrupted) {
  FakePeers peers;
  const auto errors = onPlaces(peers, {"a", "b", "c"}, "cpu", [&](Rank& rank, FakePort* port) {
    if (rank.communicator.rank() == 0) {
      peers.onLoss = [&] { rank.communicator.interrupt("rank 2 is lost"); };
    }
    if (rank.communicator.rank() < 2) {
      sendOne(rank, port);
    }
  });
  EXPECT_THAT(errors, ElementsAre(HasSubstr("rank 2 is lost"), HasSubstr("rank 2 is lost"), ""));
  EXPECT_EQ(peers.ended.load(), 1);
}

TEST(PeerPaths, AWaitOnADeviceHasADeadline) {
  const auto all = makeLocalCommunicators(2);
  const std::array<std::int32_t, 2> ranks = {0, 1};
  EXPECT_THAT(
      testing::messageOf<DeviceError>(PeerDeadline(*all[0], ranks, std::chrono::milliseconds(0))),
      AllOf(HasSubstr("rank 0 has waited 0 s"),
            HasSubstr("ranks 0 and 1"),
            HasSubstr("SLUICE_PEER_PATIENCE")));
  EXPECT_NO_THROW(PeerDeadline(*all[0], ranks, kPatience)());
  all[1]->interrupt("enough");
  EXPECT_THAT(testing::messageOf<DeviceError>(PeerDeadline(*all[0], ranks, kPatience)),
              HasSubstr("enough"));
}

TEST(PeerPaths, RefusesAMessageOfAnotherSize) {
  FakePeers peers;
  const auto errors = onPlaces(peers, {"a", "b"}, "cpu", [](Rank& rank, FakePort*) {
    if (rank.communicator.rank() == 0) {
      rank.communicator.send(*rank.queue, 1, 5, rank.at(0), 8);
    } else {
      rank.communicator.receive(*rank.queue, 0, 5, rank.at(0), 4);
    }
  });
  EXPECT_THAT(errors[1], HasSubstr("message 5 from rank 0 to rank 1 has 8 bytes, 4 were expected"));
  EXPECT_EQ(peers.copies.load(), 0);
}

TEST(PeerPaths, NoSendOfConnectedDevicesLeavesAtOnce) {
  const auto all = makeLocalCommunicators(2);
  EXPECT_TRUE(all[0]->leavesAtOnce(1, 5));
  all[0]->connectDevices();
  EXPECT_FALSE(all[0]->leavesAtOnce(1, 5));
}

TEST(PeerPaths, ANumberOfASignalIsThatOfACopyInAnotherProgram) {
  FakePeers peers;
  const auto errors = onPlaces(peers, {"a", "b"}, "cpu", [](Rank& rank, FakePort* port) {
    if (rank.communicator.rank() == 0) {
      rank.communicator.send(*rank.queue, 1, 5, rank.at(0), 0);
    } else {
      rank.communicator.receive(*rank.queue, 0, 5, rank.at(0), 0);
    }
    sendOne(rank, port);
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(peers.copies.load(), 1);
}

TEST(PeerPaths, RanksMeetOncePerNumberIfBytesGoThroughTheHost) {
  FakePeers peers;
  const auto errors = onPlaces(peers, {"a", "a"}, "cpu", [](Rank& rank, FakePort* port) {
    for (int i = 0; i < 3; ++i) {
      sendOne(rank, port);
    }
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_EQ(peers.asked.load(), 2);
}

}  // namespace
}  // namespace sluice::runtime
