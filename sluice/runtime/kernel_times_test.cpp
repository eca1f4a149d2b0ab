#include "sluice/runtime/kernel_times.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "tests/support/message_of.h"
#include "tests/support/staged_models.h"

namespace sluice::runtime {
namespace {

std::int64_t tickingClock() {
  static std::atomic<std::int64_t> now{0};
  return now += 500;
}

TEST(KernelTimes, HasEveryKernelOfEverySegment) {
  const auto one = devices::cpu::makeCpuDevice();
  const auto two = devices::cpu::makeCpuDevice();
  const testing::Chain chain =
      testing::lowerChain(testing::chainModel({.blocks = 3, .dropout = true}),
                          {.deviceOfStage = {0, 1, 0}, .microBatches = 2},
                          {program::targetOf(*one)});
  device::Device* both[] = {one.get(), two.get()};
  const std::vector<KernelTime> times = measureKernels(chain.program, both, 3, tickingClock);
  std::size_t kernels = 0;
  for (const program::Segment& segment : chain.program.segments) {
    kernels += segment.calls.size();
  }
  ASSERT_EQ(times.size(), kernels);
  for (const KernelTime& time : times) {
    EXPECT_DOUBLE_EQ(time.seconds, 500e-9);  // the clock was looked at before and after it
  }
  EXPECT_THAT(testing::messageOf([&] { measureKernels(chain.program, std::span(both, 1)); }),
              ::testing::HasSubstr("2 devices"));
  EXPECT_THAT(testing::messageOf([&] { measureKernels(chain.program, both, 0); }),
              ::testing::HasSubstr("1 run"));
}

}  // namespace
}  // namespace sluice::runtime
