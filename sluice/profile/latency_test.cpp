#include "sluice/profile/latency.h"

#include <gtest/gtest.h>

#include "sluice/profile/trace.h"
#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

void expectNanoseconds(const Latency& latency, double min, double max, double avg) {
  EXPECT_DOUBLE_EQ(latency.min, min * 1e-9);
  EXPECT_DOUBLE_EQ(latency.max, max * 1e-9);
  EXPECT_DOUBLE_EQ(latency.avg, avg * 1e-9);
}

TEST(Latency, IsMeasuredPerMicroBatch) {
  const Latencies all = measureLatencies(Trace(twoStageProgram()), twoStageTimes());
  // Micro-batch 0 is asked for at 0, fed at 100, ready at 800, fetched at 900; micro-batch 1 at
  // 100, 200, 1200, 1350.
  expectNanoseconds(all.hostDevice, 100, 100, 100);
  expectNanoseconds(all.compute, 700, 1000, 850);
  expectNanoseconds(all.deviceHost, 100, 150, 125);
  expectNanoseconds(all.roundTrip, 900, 1250, 1075);
}

TEST(Latency, CountsOnlyMicroBatchesThatComeBack) {
  std::vector<runtime::TaskTime> times = twoStageTimes(0, 0);
  for (runtime::TaskTime time : twoStageTimes(5000, 1)) {
    time.end += time.lane == 4 ? 50 : 0;  // fetching takes longer in the second round
    times.push_back(time);
  }
  const Latencies last = measureLatencies(Trace(twoStageProgram({.finalOnly = true})), times);
  expectNanoseconds(last.roundTrip, 1300, 1300, 1300);
  const Latencies second = measureLatencies(Trace(twoStageProgram({.every = 2})), times);
  expectNanoseconds(second.roundTrip, 1250, 1300, 1275);
}

TEST(Latency, CoversAllReplicas) {
  std::vector<runtime::TaskTime> times = twoStageTimes();
  for (runtime::TaskTime time : twoStageTimes(7000)) {
    time.replica = 1;
    time.end += time.lane == 4 ? 50 : 0;  // fetching takes longer from the second one
    times.push_back(time);
  }
  const Latencies all = measureLatencies(Trace(twoStageProgram()), times);
  expectNanoseconds(all.hostDevice, 100, 100, 100);
  expectNanoseconds(all.compute, 700, 1000, 850);
  expectNanoseconds(all.deviceHost, 100, 200, 150);  // 100, 150, 150, 200
  expectNanoseconds(all.roundTrip, 900, 1300, 1100);
}

TEST(Cycles, LastFromTheFirstTaskToTheEndOfTheLast) {
  std::vector<runtime::TaskTime> times = twoStageTimes();  // 1000 to 2350
  EXPECT_EQ(cyclesOf(times), 1350);
  times.push_back({.lane = 0, .task = 0, .round = 0, .start = 900, .end = 950, .replica = 1});
  EXPECT_EQ(cyclesOf(times), 1450);
  EXPECT_EQ(cyclesOf({}), 0);
}

TEST(Latency, OfNothingIsZero) {
  expectNanoseconds(measureLatencies(Trace(twoStageProgram()), {}).roundTrip, 0, 0, 0);
}

}  // namespace
}  // namespace sluice::profile
