// What every communicator does, checked on each of its ranks: in threads of one process and in
// processes.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/device/device.h"
#include "sluice/devices/registry.h"
#include "sluice/runtime/group.h"

namespace sluice::testing {

/// A rank with a device of its own and memory for 16 numbers on it.
struct Rank {
  Rank(runtime::Communicator& all, const std::string& kind)
      : communicator(all),
        device(devices::makeDevice({.name = {.kind = kind}})),
        memory(device->allocate(16 * sizeof(float))),
        queue(device->makeQueue()) {}

  device::Address at(std::size_t i) const { return memory->at(i * sizeof(float)); }
  void write(std::size_t i, std::vector<float> values) const {
    device::copyIn(*queue, at(i), values.data(), values.size() * sizeof(float));
  }
  std::vector<float> read(std::size_t i, std::size_t count) const {
    std::vector<float> values(count);
    device::copyOut(*queue, values.data(), at(i), count * sizeof(float));
    return values;
  }

  runtime::Communicator& communicator;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Memory> memory;
  std::unique_ptr<device::Queue> queue;
};

/// Between ranks 0 and 1.
inline void checkMessages(Rank& rank) {
  runtime::Communicator& c = rank.communicator;
  if (c.rank() > 1) {
    return;
  }
  if (c.rank() == 1) {
    c.receive(*rank.queue, 0, 8, rank.at(4), 8);
    c.receive(*rank.queue, 0, 7, rank.at(0), 8);
    c.receive(*rank.queue, 0, 7, rank.at(2), 8);
    c.receive(*rank.queue, 0, 9, {}, 0);
    EXPECT_THAT(rank.read(0, 6), ::testing::ElementsAre(1, 2, 5, 6, 3, 4));
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
}

/// For two to four ranks.
inline void checkCollectives(Rank& rank) {
  runtime::Communicator& c = rank.communicator;
  const auto r = static_cast<float>(c.rank());
  const auto size = static_cast<std::size_t>(c.size());
  const auto last = static_cast<float>(c.size() - 1);
  rank.write(1, {r});
  c.gather(*rank.queue, 2, rank.at(1), rank.at(4), sizeof(float));
  std::vector<float> ranks;
  for (std::size_t i = 0; i < size; ++i) {
    ranks.push_back(static_cast<float>(i));
  }
  EXPECT_EQ(rank.read(4, size), ranks);
  rank.write(4, {10 * r, 10 * r + 1, 10 * r + 2, 10 * r + 3});
  c.scatter(*rank.queue, 1, 3, rank.at(4), rank.at(8), sizeof(float));
  EXPECT_THAT(rank.read(8, 1), ::testing::ElementsAre(10 + r));
  c.broadcast(*rank.queue, c.size() - 1, 4, rank.at(4), 2 * sizeof(float));
  EXPECT_THAT(rank.read(4, 2), ::testing::ElementsAre(10 * last, 10 * last + 1));
}

/// Two replicas on each rank: the sum must be that of all replicas in their order. In another
/// order, or added up in pairs, large terms would swallow small ones or not.
inline void checkSums(Rank& rank) {
  runtime::Communicator& c = rank.communicator;
  runtime::Group group{.communicator = &c, .me = static_cast<std::size_t>(c.rank())};
  for (std::int32_t r = 0; r < c.size(); ++r) {
    group.ranks.push_back(r);
  }
  constexpr std::size_t kElements = 5;
  const auto term = [](std::size_t replica, std::size_t i) {
    const std::array<float, 4> terms = {1e8F, 1.5F, -1e8F, 0.3F};
    return terms[(replica + i) % terms.size()] * (1 + 0.1F * static_cast<float>(replica));
  };
  const std::size_t first = 2 * group.me;
  std::vector<float> expected(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    rank.write(i, {term(first, i)});
    rank.write(8 + i, {term(first + 1, i)});
    expected[i] = term(0, i);
    for (std::size_t replica = 1; replica < 2 * group.ranks.size(); ++replica) {
      expected[i] += term(replica, i);
    }
  }
  const std::vector<device::Address> sources = {rank.at(0), rank.at(8)};
  const auto floatsOf = [](const runtime::MessageBytes& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  EXPECT_EQ(floatsOf(runtime::sumOf(group, *rank.queue, 5, sources, DType::F32, kElements)),
            expected);

  // Every replica has its own part of the sum; what is beyond the end is zero.
  const auto replicas = static_cast<std::int64_t>(2 * group.ranks.size());
  const std::int64_t part = (static_cast<std::int64_t>(kElements) + replicas - 1) / replicas;
  program::Collective parts{.type = {DType::F32, Shape{part}},
                            .kind = program::CollectiveKind::SumPart,
                            .operand = {DType::F32, Shape{kElements}}};
  std::vector<float> padded = expected;
  padded.resize(static_cast<std::size_t>(part * replicas));
  const runtime::MessageBytes sums = runtime::reduceOver(group, *rank.queue, 6, parts, sources);
  const auto begin = padded.begin() + static_cast<std::ptrdiff_t>(first) * part;
  EXPECT_EQ(floatsOf(sums), std::vector<float>(begin, begin + 2 * part));
  EXPECT_EQ(runtime::shareOf(parts, sums, 1).size(), part * sizeof(float));

  // And back: the whole from the parts.
  rank.write(0, {term(first, 0)});
  rank.write(8, {term(first + 1, 0)});
  program::Collective whole{.type = {DType::F32, Shape{replicas - 1}},
                            .kind = program::CollectiveKind::Gather,
                            .operand = {DType::F32, Shape{1}}};
  std::vector<float> all;
  for (std::size_t replica = 0; replica + 1 < 2 * group.ranks.size(); ++replica) {
    all.push_back(term(replica, 0));
  }
  EXPECT_EQ(floatsOf(runtime::reduceOver(group, *rank.queue, 7, whole, sources)), all);
}

}  // namespace sluice::testing
