// What is said of NCCL: needs no GPU, and no library.
#include <cstddef>

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/nccl.h"
#include "sluice/devices/cuda/nccl_api.h"
#include "tests/support/message_of.h"

namespace sluice::devices::cuda::nccl {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(Nccl, OldVersionsAreRefusedWithTheirNumber) {
  EXPECT_EQ(whyTooOld(21800), "");
  EXPECT_EQ(whyTooOld(22809), "");
  EXPECT_THAT(whyTooOld(21705), AllOf(HasSubstr("NCCL 2.17"), HasSubstr("2.18 or a later")));
  EXPECT_THAT(whyTooOld(2708), HasSubstr("NCCL 2.7"));  // numbered in the old way
}

#if __has_include(<nccl.h>)
/// What the device knows of NCCL by itself is what the library's header says.
TEST(Nccl, HasTheNumbersOfItsHeader) {
  EXPECT_EQ(kSuccess, ncclSuccess);
  EXPECT_EQ(kInProgress, ncclInProgress);
  EXPECT_EQ(kBytes, ncclInt8);
  EXPECT_EQ(sizeof(Id), sizeof(ncclUniqueId));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config own;
  EXPECT_EQ(own.magic, theirs.magic);
  EXPECT_EQ(own.clusters, theirs.cgaClusterSize);
  EXPECT_EQ(own.network, theirs.netName);
  EXPECT_EQ(offsetof(Config, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(Config, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(Config, network), offsetof(ncclConfig_t, netName));
  EXPECT_EQ(offsetof(Config, share), offsetof(ncclConfig_t, splitShare));
}
#endif

TEST(Nccl, HasAllFunctionsWhereItIsThere) {
  EXPECT_THAT(whyUnusable(), AnyOf("", HasSubstr("libnccl.so.2, which cannot be opened")));
}

TEST(Nccl, WhoeverAsksForItIsToldThatItIsNotThere) {
  if (whyUnusable().empty()) {
    GTEST_SKIP() << "it is there";
  }
  EXPECT_THAT(sluice::testing::messageOf<DeviceError>([] { makePort(0)->invite(); }),
              AllOf(HasSubstr("SLUICE_NCCL"), HasSubstr("libnccl.so.2")));
}

TEST(Nccl, AnErrorNamesTheCallWhatItSaidAndWhatToDo) {
  EXPECT_EQ(textOf("ncclSend", "remote process exited", "socket closed"),
            "NCCL: ncclSend failed: remote process exited; socket closed (NCCL_DEBUG=WARN prints "
            "what it saw)");
  EXPECT_THAT(textOf("ncclSend", "invalid argument", ""),
              HasSubstr("invalid argument (NCCL_DEBUG"));
}

}  // namespace
}  // namespace sluice::devices::cuda::nccl
