#include "sluice/devices/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace sluice::devices {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::messageOf;

DevicePool poolOf(std::string_view names, std::vector<std::int32_t> ids = {}) {
  return {parseDevices(names), std::move(ids), {.threads = 2, .memoryBytes = 1 << 20}};
}

/// Kinds and numbers of so many replicas.
std::vector<std::string> made(DevicePool pool, std::size_t devices, std::size_t replicas) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < devices * replicas; ++i) {
    const device::DeviceInfo info = pool.make(i % devices)->info();
    EXPECT_EQ(info.threads, 2);
    EXPECT_EQ(info.memoryBytes, std::size_t{1} << 20);
    all.push_back(info.kind + std::to_string(info.index));
  }
  return all;
}

TEST(DevicePool, GivesEveryReplicaTheSameKindsAndNumbersOfItsOwn) {
  EXPECT_THAT(made(poolOf("cpu"), 2, 2), ElementsAre("cpu0", "cpu1", "cpu2", "cpu3"));
  EXPECT_THAT(made(poolOf("cpu,far"), 3, 2),
              ElementsAre("cpu0", "far0", "far1", "cpu1", "far2", "far3"));
}

TEST(DevicePool, UsesUpNumberedNamesAndPassesThemOver) {
  EXPECT_THAT(made(poolOf("far:1,far:0,far:3,far:2"), 2, 2),
              ElementsAre("far1", "far0", "far3", "far2"));
  EXPECT_THAT(made(poolOf("far:1,far,cpu"), 3, 1), ElementsAre("far1", "far0", "cpu0"));
  EXPECT_THAT(made(poolOf("cpu", {7, 5}), 1, 2), ElementsAre("cpu7", "cpu5"));
}

TEST(DevicePool, RefusesMoreDevicesThanWereNamed) {
  EXPECT_NO_THROW(poolOf("far*3").require(3, 1));
  EXPECT_THAT(messageOf([] { poolOf("far:0,far:1").require(1, 3); }),
              AllOf(HasSubstr("at least 3 devices"), HasSubstr("names 2")));
  EXPECT_THAT(messageOf([] {
                poolOf("cpu", {1, 2}).require(3, 1);
              }),
              AllOf(HasSubstr("useDeviceIds names 2 devices"), HasSubstr("need 3")));
}

TEST(DevicePool, HasASampleOfEachNameAndMakesOneOfAKindAtMost) {
  DevicePool pool = poolOf("cpu,far,far,cpu");
  const std::unique_ptr<device::Device> known = pool.make(0);
  const std::vector<const device::Device*> samples = pool.samples(*known);
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples[0], known.get());
  EXPECT_EQ(samples[1]->info().kind, "far");
  EXPECT_EQ(samples[1], samples[2]);
  EXPECT_EQ(samples[3], known.get());
  EXPECT_EQ(pool.samples(*known), samples);
}

}  // namespace
}  // namespace sluice::devices
