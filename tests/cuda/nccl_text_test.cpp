// What is said of NCCL: needs no GPU, and no library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/nccl.h"
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
