#include "sluice/base/workers.h"

#include <atomic>
#include <cstdint>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/base/spin.h"
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

/// Jobs of all sizes without a pause, so that threads come late to jobs that are over.
TEST(Workers, NeverMixTheTilesOfJobsThatFollowEachOther) {
  Workers workers(4);
  std::vector<std::int64_t> results(64);
  for (std::int64_t job = 0; job < 20'000; ++job) {
    const std::int64_t count = 1 + job * 7 % 64;
    workers.parallelFor(count, [&](std::int64_t i) {
      results[static_cast<std::size_t>(i)] = job * 100 + i;  // a second run of a tile is a race
    });
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(results[static_cast<std::size_t>(i)], job * 100 + i);
    }
  }
}

TEST(Workers, OfSeveralTeamsWorkSideBySide) {
  std::vector<std::thread> callers;
  std::vector<std::int64_t> sums(4);
  for (std::int64_t& sum : sums) {
    callers.emplace_back([&sum] {
      Workers workers(3);
      std::vector<std::int64_t> parts(40);
      for (int job = 0; job < 500; ++job) {
        workers.parallelFor(40, [&](std::int64_t i) { parts[static_cast<std::size_t>(i)] += i; });
      }
      sum = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_THAT(sums, ::testing::Each(500 * 39 * 40 / 2));
}

TEST(Workers, MoreThanCoresDoTheWorkAllTheSame) {
  Workers workers(3 * availableCores() + 5);
  std::atomic<std::int64_t> sum{0};
  for (int job = 0; job < 200; ++job) {
    workers.parallelFor(100, [&](std::int64_t i) { sum += i; });
  }
  EXPECT_EQ(sum.load(), 200 * 99 * 100 / 2);
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
