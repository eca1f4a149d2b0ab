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

/// All ranks, each with this many replicas: what a sum and the parts of it must be. In another
/// order, or added up in pairs, large terms would swallow small ones or not.
inline void checkSumsOf(Rank& rank, std::size_t replicas, std::size_t elements) {
  runtime::Communicator& c = rank.communicator;
  runtime::Group group{.communicator = &c, .me = static_cast<std::size_t>(c.rank())};
  for (std::int32_t r = 0; r < c.size(); ++r) {
    group.ranks.push_back(r);
  }
  const std::size_t count = replicas * group.ranks.size();
  const std::size_t first = replicas * group.me;
  const auto term = [](std::size_t replica, std::size_t i) {
    const std::array<float, 4> terms = {1e8F, 1.5F, -1e8F, 0.3F};
    return terms[(replica + i) % terms.size()] * (1 + 0.1F * static_cast<float>(replica));
  };
  const auto floatsOf = [](const runtime::MessageBytes& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  std::vector<std::unique_ptr<device::Memory>> memories;
  std::vector<device::Address> sources;
  for (std::size_t r = 0; r < replicas; ++r) {
    std::vector<float> terms(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      terms[i] = term(first + r, i);
    }
    memories.push_back(rank.device->allocate(elements * sizeof(float)));
    sources.push_back(memories.back()->at());
    device::copyIn(*rank.queue, sources.back(), terms.data(), elements * sizeof(float));
  }
  std::vector<float> expected(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    expected[i] = term(0, i);
    for (std::size_t replica = 1; replica < count; ++replica) {
      expected[i] += term(replica, i);
    }
  }
  EXPECT_EQ(floatsOf(runtime::sumOf(
                group, *rank.queue, 5, sources, DType::F32, static_cast<std::int64_t>(elements))),
            expected);

  // Every replica has its own part of the sum; what is beyond the end is zero.
  const std::size_t part = (elements + count - 1) / count;
  const program::Collective parts{
      .type = {DType::F32, Shape{static_cast<std::int64_t>(part)}},
      .kind = program::CollectiveKind::SumPart,
      .operand = {DType::F32, Shape{static_cast<std::int64_t>(elements)}}};
  std::vector<float> padded = expected;
  padded.resize(part * count);
  const runtime::MessageBytes sums = runtime::reduceOver(group, *rank.queue, 6, parts, sources);
  const auto begin = padded.begin() + static_cast<std::ptrdiff_t>(first * part);
  EXPECT_EQ(floatsOf(sums),
            std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(replicas * part)));
  EXPECT_EQ(runtime::shareOf(parts, sums, replicas - 1).size(), part * sizeof(float));

  // And back: the whole, which is one element shorter, from the first element of each.
  const program::Collective whole{.type = {DType::F32, Shape{static_cast<std::int64_t>(count) - 1}},
                                  .kind = program::CollectiveKind::Gather,
                                  .operand = {DType::F32, Shape{1}}};
  std::vector<float> all;
  for (std::size_t replica = 0; replica + 1 < count; ++replica) {
    all.push_back(term(replica, 0));
  }
  EXPECT_EQ(floatsOf(runtime::reduceOver(group, *rank.queue, 7, whole, sources)), all);
}

/// Few elements and many, which take different ways.
inline void checkSums(Rank& rank) {
  for (const std::size_t replicas : {1, 2}) {
    for (const std::size_t elements : {5, 20'001}) {
      checkSumsOf(rank, replicas, elements);
    }
  }
}

}  // namespace sluice::testing
