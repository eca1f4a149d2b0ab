#include "sluice/devices/registry.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/kind.h"
#include "tests/support/device_variable.h"
#include "tests/support/message_of.h"

namespace sluice::devices {
namespace {

using sluice::testing::DeviceVariable;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
    EXPECT_THAT(messageOf([&] { parseDevices(text); }), HasSubstr("kind[@target][:index][*shares]"))
        << text;
  }
  EXPECT_THAT(messageOf([] { parseDevices("cpu*0"); }), HasSubstr("1 to 1024"));
  EXPECT_THAT(messageOf([] { parseDevices("cpu*99999"); }), HasSubstr("1 to 1024"));
}

TEST(Devices, AreMadeByTheirKind) {
  for (const KindInfo& kind : deviceKinds()) {
    if (!kind.unusable.empty() || kind.count) {
      continue;  // a machine may have few of it, or none
    }
    const auto device = makeDevice(
        {.name = {.kind = std::string(kind.name)}, .number = 5, .threads = 2, .memoryBytes = 1000});
    EXPECT_EQ(device->info().kind, kind.name);
    EXPECT_EQ(device->info().index, 5);
    EXPECT_EQ(device->info().threads, 2);
    EXPECT_EQ(device->info().memoryBytes, 1000U);
  }
  EXPECT_EQ(makeDevice({.name = {.kind = "far", .index = 3}, .number = 5})->info().index, 3);
}

TEST(Devices, ListsPrintAsTheyParse) {
  for (const char* text : {"cpu", "far:2", "far:0*3", "far*3,cpu", "cpu,far:1*2,far"}) {
    EXPECT_EQ(parseDevices(text).str(), text);
  }
  EXPECT_EQ(parseDevices(" far , cpu*2 ").str(), "far,cpu*2");
}

/// The devices of a list, numbered one after the other.
std::vector<device::DeviceInfo> madeOf(const char* text) {
  std::vector<device::DeviceInfo> all;
  for (const DeviceName& name : parseDevices(text).names) {
    const int number = static_cast<int>(all.size());
    all.push_back(
        makeDevice({.name = name, .number = number, .threads = 2, .memoryBytes = 1000})->info());
  }
  return all;
}

TEST(Devices, SayWhatTheyShareAndWithHowMany) {
  struct Case {
    const char* text;
    std::vector<int> physicalIds;
    int shares;
  };
  // All CPU devices are one machine; far ones are as many as they have numbers.
  for (const Case& c : {Case{"cpu,cpu", {0, 0}, 1},
                        Case{"cpu*3", {0, 0, 0}, 3},
                        Case{"cpu:0*4", {0, 0, 0, 0}, 4},
                        Case{"far*3", {0, 1, 2}, 1},
                        Case{"far:1*2", {1, 1}, 2}}) {
    SCOPED_TRACE(c.text);
    const std::vector<device::DeviceInfo> made = madeOf(c.text);
    ASSERT_EQ(made.size(), c.physicalIds.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].physicalId, c.physicalIds[i]);
      EXPECT_EQ(made[i].shares, c.shares);
      // Every share has all the threads and the whole budget.
      EXPECT_EQ(made[i].threads, 2);
      EXPECT_EQ(made[i].memoryBytes, 1000U);
    }
  }
}

/// Kinds that this machine does not have: one that cannot be used, and one of two devices.
constexpr std::array<Kind, 2> kOtherKinds = {{
    {"abacus",
     "beads",
     [] { return std::string("no driver is loaded"); },
     []() -> std::optional<int> { return 0; },
     [](const DeviceRequest&) -> std::unique_ptr<device::Device> {
       raise<InternalError>("made, though it cannot be used");
     }},
    {"pair",
     "two devices",
     [] { return std::string(); },
     []() -> std::optional<int> { return 2; },
     [](const DeviceRequest& request) {
       return cpu::makeCpuDevice({.index = request.name.index.value_or(request.number)});
     }},
}};

TEST(Devices, OfAKindThatCannotBeUsedSayWhy) {
  const auto refusal =
      AllOf(HasSubstr("kind 'abacus' cannot be used here"), HasSubstr("no driver is loaded"));
  for (const char* text : {"abacus", "abacus:0", "pair,abacus*2"}) {
    EXPECT_THAT(messageOf<DeviceError>([&] { parseDevices(text, kOtherKinds); }), refusal) << text;
  }
  EXPECT_THAT(messageOf<DeviceError>([] { makeDevice({.name = {.kind = "abacus"}}, kOtherKinds); }),
              refusal);
  const std::vector<KindInfo> kinds = deviceKinds(kOtherKinds);
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0].unusable, "no driver is loaded");
  EXPECT_EQ(kinds[1].unusable, "");
  EXPECT_EQ(kinds[1].count, 2);
}

TEST(Devices, AreNoMoreThanTheMachineHas) {
  const auto refusal = AllOf(HasSubstr("no device pair:2"), HasSubstr("has 2 of the kind"));
  EXPECT_EQ(parseDevices("pair:1*3", kOtherKinds).names.size(), 3U);
  EXPECT_THAT(messageOf([] { parseDevices("pair:0,pair:2", kOtherKinds); }), refusal);
  // Without an index, the number says which one it is.
  const DeviceRequest request{.name = {.kind = "pair"}, .number = 1};
  EXPECT_EQ(makeDevice(request, kOtherKinds)->info().index, 1);
  EXPECT_THAT(messageOf([] { makeDevice({.name = {.kind = "pair"}, .number = 2}, kOtherKinds); }),
              refusal);
  EXPECT_THAT(messageOf([] { parseDevices("cpu", kOtherKinds); }),
              AllOf(HasSubstr("no kind of device 'cpu'"), HasSubstr("abacus, pair")));
}

TEST(ChosenDevices, AreTheTextElseTheVariableElseTheCpu) {
  for (const char* none : {static_cast<const char*>(nullptr), ""}) {
    const DeviceVariable variable(none);
    EXPECT_EQ(chosenDevices("").str(), "cpu");
  }
  const DeviceVariable variable("far*2");
  EXPECT_EQ(chosenDevices("").str(), "far*2");
  EXPECT_EQ(chosenDevices("cpu*3").str(), "cpu*3");
}

TEST(ChosenDevices, SayThatAWrongTextIsTheVariables) {
  for (const char* text : {"abacus", "cpu:", "far*0", "cpu,,far"}) {
    const DeviceVariable variable(text);
    EXPECT_THAT(messageOf([] { chosenDevices(""); }), HasSubstr("variable SLUICE_DEVICE")) << text;
    EXPECT_THAT(messageOf([&] { chosenDevices(text); }), Not(HasSubstr("SLUICE_DEVICE"))) << text;
    EXPECT_EQ(chosenDevices("cpu").str(), "cpu");
  }
  // A list that is right, but too short for the model.
  const DeviceVariable variable("far*2");
  EXPECT_THAT(messageOf([] { chosenDevices("").at(2); }),
              AllOf(HasSubstr("names 2"), HasSubstr("variable SLUICE_DEVICE")));
  EXPECT_THAT(messageOf([] { chosenDevices("far*2").at(2); }), Not(HasSubstr("SLUICE_DEVICE")));
  EXPECT_EQ(chosenDevices(""), chosenDevices("far*2"));
}

/// Exits with 3 if two queues of a far device may write the same bytes without an event between
/// them, with 4 if that is refused.
[[noreturn]] void writeWithoutOrder() {
  const std::unique_ptr<device::Device> far = makeDevice({.name = {.kind = "far"}});
  const std::unique_ptr<device::Memory> memory = far->allocate(64);
  const std::unique_ptr<device::Queue> first = far->makeQueue();
  const std::unique_ptr<device::Queue> second = far->makeQueue();
  first->fill(memory->at(), std::byte{1}, 64);
  try {
    second->fill(memory->at(), std::byte{1}, 64);
  } catch (const InternalError&) {
    std::_Exit(4);
  }
  std::_Exit(3);
}

TEST(FarDevices, CheckTheOrderOfWorkIfTheEnvironmentAsksForIt) {
  // Each in a process of its own: devices look at the environment once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* variable = "SLUICE_FAR_CHECK";
  const char* given = std::getenv(variable);
  const std::string before = given == nullptr ? "" : given;
  ::unsetenv(variable);
  EXPECT_EXIT(writeWithoutOrder(), ::testing::ExitedWithCode(3), "");
  ::setenv(variable, "0", 1);
  EXPECT_EXIT(writeWithoutOrder(), ::testing::ExitedWithCode(3), "");
  ::setenv(variable, "1", 1);
  EXPECT_EXIT(writeWithoutOrder(), ::testing::ExitedWithCode(4), "");
  if (given == nullptr) {
    ::unsetenv(variable);
  } else {
    ::setenv(variable, before.c_str(), 1);
  }
}

}  // namespace
}  // namespace sluice::devices
