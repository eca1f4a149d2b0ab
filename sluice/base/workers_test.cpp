#include "sluice/base/workers.h"

#include <atomic>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "tests/support/address_space.h"

namespace sluice {
namespace {

TEST(Workers, EveryTileRunsExactlyOnce) {
  for (const int threads : {1, 2, 5}) {
    Workers workers(threads);
    for (const std::int64_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      workers.parallelFor(count, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& r : runs) {
        EXPECT_EQ(r.load(), 1);
      }
    }
  }
}

TEST(Workers, AnExceptionOfATileReachesTheCallerAndTheTeamLivesOn) {
  Workers workers(3);
  const auto failAt57 = [](std::int64_t i) {
    if (i == 57) {
      throw std::runtime_error("tile");
    }
  };
  EXPECT_THROW(workers.parallelFor(100, failAt57), std::runtime_error);
  std::atomic<int> sum{0};
  workers.parallelFor(10, [&](std::int64_t i) { sum += static_cast<int>(i); });
  EXPECT_EQ(sum.load(), 45);
}

TEST(Workers, ThatCannotBeStartedAreADeviceError) {
  if (!testing::kCanLimitAddressSpace) {
    GTEST_SKIP() << "the sanitizer needs address space";
  }
  EXPECT_EXIT(
      {
        testing::limitAddressSpace(std::size_t{64} << 20U);  // stacks of a few threads
        testing::exitByError<DeviceError>([] { Workers(1000); });
      },
      ::testing::ExitedWithCode(0),
      "");
}

TEST(HostLimits, BecomeErrorsOfOurs) {
  const auto messageIn = [](auto f) {
    try {
      orOutOfMemory("the table of 'x.csv'", f);
    } catch (const OutOfMemory& error) {
      return error.message();
    }
    return std::string("nothing was thrown");
  };
  EXPECT_NE(messageIn([] { throw std::bad_alloc(); }).find("'x.csv'"), std::string::npos);
  EXPECT_NE(messageIn([] { std::vector<int>().reserve(SIZE_MAX); }).find("'x.csv'"),
            std::string::npos);
  EXPECT_EQ(orOutOfMemory("nothing", [] { return 5; }), 5);
}

TEST(Workers, AnEmptyTeamIsRefused) {
  EXPECT_THROW(Workers(0), InvalidArgument);
}

}  // namespace
}  // namespace sluice
