#include "sluice/base/workers.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/base/error.h"

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

TEST(Workers, AnEmptyTeamIsRefused) {
  EXPECT_THROW(Workers(0), InvalidArgument);
}

}  // namespace
}  // namespace sluice
