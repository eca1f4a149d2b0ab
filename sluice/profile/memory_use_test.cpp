#include "sluice/profile/memory_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

using ::testing::ElementsAre;

/// "x" is fed to device 0 (ring of two), "h" goes to device 1 (one slot), "w" is state of device 1,
/// and forward 1 needs 7 bytes of its own.
Trace withBuffers() {
  Trace trace(twoStageProgram());
  trace.devices = {{.stateBytes = 0, .transientBytes = 20},
                   {.ownBytes = 1, .stateBytes = 4, .transientBytes = 107}};
  trace.buffers = {{.name = "x", .device = 0, .bytes = 10, .slots = 2},
                   {.name = "h", .device = 1, .bytes = 100},
                   {.name = "w", .device = 1, .state = true, .bytes = 4}};
  const auto subject = [&](std::string_view name) -> TracedSubject& {
    return *std::ranges::find(trace.subjects, name, &TracedSubject::name);
  };
  subject("feed x").touches = {{.buffer = 0, .writes = true}};
  subject("forward 0").touches = {{.buffer = 0, .reads = true}};
  subject("transfer h").touches = {{.buffer = 1, .writes = true}};
  subject("forward 1").touches = {{.buffer = 1, .reads = true}};
  subject("forward 1").workBytes = 7;
  for (const std::size_t lane : {0U, 1U}) {
    trace.lanes[lane].tasks[1].slots = {{.buffer = program::BufferId(0), .slot = 1}};
  }
  trace.addStep(twoStageTimes(0));
  return trace;
}

TEST(MemoryUse, FollowsValuesFromTheirWriteToTheirLastRead) {
  const Trace trace = withBuffers();
  const std::vector<MemoryUse> uses = memoryUse(trace, trace.steps[0]);
  // Fed at 0 and 100; read until 500 and 900.
  EXPECT_THAT(
      uses[0].points,
      ElementsAre(
          MemoryPoint{0, 10}, MemoryPoint{100, 20}, MemoryPoint{500, 10}, MemoryPoint{900, 0}));
  EXPECT_EQ(uses[0].peak, 20);
  EXPECT_EQ(uses[0].planned, 20);
  EXPECT_THAT(uses[0].atPeak, ElementsAre(HeldTensor{"x", 20, false}));
  // Copied at 500 and 900; computed from 600 to 800 and from 1000 to 1200.
  EXPECT_THAT(uses[1].points,
              ElementsAre(MemoryPoint{0, 5},
                          MemoryPoint{500, 105},
                          MemoryPoint{600, 112},
                          MemoryPoint{800, 5},
                          MemoryPoint{900, 105},
                          MemoryPoint{1000, 112},
                          MemoryPoint{1200, 5}));
  EXPECT_EQ(uses[1].peak, 112);
  EXPECT_EQ(uses[1].planned, 112);
  EXPECT_EQ(uses[1].peakTime, 600);
  EXPECT_THAT(uses[1].atPeak,
              ElementsAre(HeldTensor{"h", 100, false},
                          HeldTensor{"work memory of forward 1 m0", 7, false},
                          HeldTensor{"w", 4, true}));
}

TEST(MemoryUse, OfAValueThatIsReadFirstBeginsWithTheStep) {
  Trace trace = withBuffers();
  trace.subjects[0].touches.clear();
  const std::vector<MemoryUse> uses = memoryUse(trace, trace.steps[0]);
  EXPECT_THAT(uses[0].points,
              ElementsAre(MemoryPoint{0, 20}, MemoryPoint{500, 10}, MemoryPoint{900, 0}));
}

TEST(MemoryUse, WithFewerPointsKeepsThePeak) {
  std::vector<MemoryPoint> points;
  for (std::int64_t i = 0; i < 1000; ++i) {
    points.push_back({i, i == 777 ? 99 : i % 7});
  }
  const std::vector<MemoryPoint> few = thinned(points, 50);
  EXPECT_LE(few.size(), 54U);
  EXPECT_EQ(std::ranges::max(few, {}, &MemoryPoint::bytes).bytes, 99);
  EXPECT_EQ(thinned(few, 60), few);
}

}  // namespace
}  // namespace sluice::profile
