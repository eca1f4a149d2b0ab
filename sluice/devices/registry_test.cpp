#include "sluice/devices/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "tests/support/message_of.h"

namespace sluice::devices {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Devices, AreNamedByKindIndexAndShares) {
  EXPECT_EQ(parseDevices("cpu"), (DeviceList{{{.kind = "cpu"}}, true}));
  EXPECT_EQ(parseDevices("far:2"), (DeviceList{{{.kind = "far", .index = 2}}, false}));
  const DeviceName shared{.kind = "far", .index = 0, .shares = 3};
  EXPECT_EQ(parseDevices("far:0*3"), (DeviceList{{shared, shared, shared}, false}));
  const DeviceName three{.kind = "far", .shares = 3};
  EXPECT_EQ(parseDevices("far*3, cpu"), (DeviceList{{three, three, three, {.kind = "cpu"}}, true}));
  EXPECT_EQ(shared.str(), "far:0*3");
}

TEST(Devices, OfAListThatEndsAreCounted) {
  EXPECT_EQ(parseDevices("far,cpu").at(9).kind, "cpu");
  EXPECT_EQ(parseDevices("cpu*2").at(1).kind, "cpu");
  EXPECT_THAT(messageOf([] { parseDevices("cpu*2").at(2); }),
              AllOf(HasSubstr("needs at least 3 devices"), HasSubstr("names 2")));
}

TEST(Devices, ThatAreNotThereAreRefused) {
  EXPECT_THAT(messageOf([] { parseDevices("gpu"); }),
              AllOf(HasSubstr("no kind of device 'gpu'"), HasSubstr("cpu, far")));
  for (const char* text :
       {"", ",", "cpu,", "cpu:", "cpu:x", "cpu:-1", "cpu*", "cpu*2x", "cpu*2:1"}) {
    EXPECT_THAT(messageOf([&] { parseDevices(text); }), HasSubstr("kind[:index][*shares]")) << text;
  }
  EXPECT_THAT(messageOf([] { parseDevices("cpu*0"); }), HasSubstr("1 to 1024"));
  EXPECT_THAT(messageOf([] { parseDevices("cpu*99999"); }), HasSubstr("1 to 1024"));
}

TEST(Devices, AreMadeByTheirKind) {
  for (const KindInfo& kind : deviceKinds()) {
    EXPECT_EQ(kind.unusable, "");
    const auto device = makeDevice(
        {.name = {.kind = std::string(kind.name)}, .number = 5, .threads = 2, .memoryBytes = 1000});
    EXPECT_EQ(device->info().kind, kind.name);
    EXPECT_EQ(device->info().index, 5);
    EXPECT_EQ(device->info().threads, 2);
    EXPECT_EQ(device->info().memoryBytes, 1000U);
  }
  EXPECT_EQ(makeDevice({.name = {.kind = "far", .index = 3}, .number = 5})->info().index, 3);
}

}  // namespace
}  // namespace sluice::devices
