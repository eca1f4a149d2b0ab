#include "sluice/devices/calibrate.h"

#include <atomic>

#include <gtest/gtest.h>

#include "sluice/devices/cpu/cpu_device.h"

namespace sluice::devices {
namespace {

/// A microsecond passes with every look at it.
std::int64_t slowClock() {
  static std::atomic<std::int64_t> now{0};
  return now += 1000;
}

TEST(Calibrate, FillsATargetThatCanBeWrittenAndRead) {
  const auto device = cpu::makeCpuDevice({.threads = 1});
  const sim::SimTarget target = calibrate(
      *device, {.clock = slowClock, .secondsEach = 2e-6, .largest = 64, .copyBytes = 1 << 16});
  EXPECT_EQ(target.name, "measured");
  EXPECT_FALSE(target.ipuRules);
  EXPECT_EQ(target.clockHz, 1'000'000'000);
  // A copy of 64 KiB took one microsecond, and so did a sum of as many bytes.
  EXPECT_DOUBLE_EQ(target.machine.peer.bytesPerSecond, 65536 / 1e-6);
  EXPECT_DOUBLE_EQ(target.machine.host.bytesPerSecond, 65536 / 1e-6);
  EXPECT_DOUBLE_EQ(target.machine.sumBytesPerSecond, 65536 / 1e-6);
  EXPECT_DOUBLE_EQ(target.flops.f32, 2.0 * 64 * 64 * 64 / 1e-6);
  EXPECT_GE(target.machine.cores, 1);
  EXPECT_EQ(target.machine.hostStreams, 1);
  EXPECT_EQ(sim::parseTarget(print(target), "text"), target);
}

}  // namespace
}  // namespace sluice::devices
