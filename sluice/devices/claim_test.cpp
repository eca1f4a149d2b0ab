#include "sluice/devices/claim.h"

#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "sluice/devices/registry.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::devices {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Locks of the tests are in a folder of their own, and the variables are as the test sets them.
class Claims : public ::testing::Test {
 protected:
  Claims() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~Claims() override {
    for (const char* name :
         {"TMPDIR", "SLUICE_SIM_DEVICES", "SLUICE_WAIT_FOR_DEVICE", "POPTORCH_WAIT_FOR_IPU"}) {
      ::unsetenv(name);
    }
  }

 private:
  sluice::testing::TempFolder folder_;
};

TEST_F(Claims, GiveEachDeviceOnce) {
  auto first = claimDevice({.kind = "toy", .count = 2});
  const auto second = claimDevice({.kind = "toy", .count = 2});
  EXPECT_EQ(first->number(), 0);
  EXPECT_EQ(second->number(), 1);
  EXPECT_THAT(
      messageOf<DeviceError>([] { claimDevice({.kind = "toy", .count = 2}); }),
      AllOf(HasSubstr("none of the 2 devices of kind 'toy'"), HasSubstr("SLUICE_WAIT_FOR_DEVICE")));
  first.reset();
  EXPECT_EQ(claimDevice({.kind = "toy", .count = 2})->number(), 0);
  EXPECT_THAT(messageOf<DeviceError>([] { claimDevice({.kind = "toy", .count = 2, .index = 1}); }),
              HasSubstr("toy:1 is in use"));
  EXPECT_EQ(claimDevice({.kind = "other", .count = 1})->number(), 0);
}

TEST_F(Claims, AreSeenByOtherProcessesAndEndWithThem) {
  static_cast<void>(claimDevice({.kind = "toy"}));  // makes the folder
  const pid_t child = ::fork();
  if (child == 0) {
    const auto claim = claimDevice({.kind = "toy"});
    std::_Exit(claim->number());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(claimDevice({.kind = "toy"})->number(), 0);  // the child ended without giving it back
  // A lock of somebody else is one as well.
  const auto path = claimFolder() / "toy-0.lock";
  const int other = ::open(path.c_str(), O_RDWR);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_THROW(claimDevice({.kind = "toy"}), DeviceError);
  ::close(other);
}

TEST_F(Claims, MayBeWaitedFor) {
  auto taken = claimDevice({.kind = "toy"});
  std::thread later([&] { taken.reset(); });
  EXPECT_EQ(claimDevice({.kind = "toy", .waits = true})->number(), 0);
  later.join();
  EXPECT_FALSE(waitsForDevices());
  ::setenv("POPTORCH_WAIT_FOR_IPU", "1", 1);
  EXPECT_TRUE(waitsForDevices());
  ::setenv("SLUICE_WAIT_FOR_DEVICE", "0", 1);
  EXPECT_FALSE(waitsForDevices());
}

TEST_F(Claims, OfSimulatedDevicesLastAsLongAsTheirMemory) {
  ::setenv("SLUICE_SIM_DEVICES", "2", 1);
  const auto one = makeDevice({.name = {.kind = "sim"}});
  const auto two = makeDevice({.name = {.kind = "sim"}, .number = 1});
  const auto three = makeDevice({.name = {.kind = "sim"}});  // none is used yet
  auto memory = one->allocate(64);
  const auto more = one->allocate(64);
  const auto other = two->allocate(64);
  EXPECT_THAT(messageOf<DeviceError>([&] { three->allocate(64); }), HasSubstr("2 devices"));
  memory.reset();
  EXPECT_THROW(three->allocate(64), DeviceError);  // the first one still has some
  EXPECT_NO_THROW(one->allocate(64));
  EXPECT_THAT(messageOf([] { parseDevices("sim:2"); }), HasSubstr("sim:2"));
  ::setenv("SLUICE_SIM_DEVICES", "some", 1);
  EXPECT_THAT(messageOf([] { parseDevices("sim:0"); }), HasSubstr("SLUICE_SIM_DEVICES"));
}

}  // namespace
}  // namespace sluice::devices
